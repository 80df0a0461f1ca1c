// What the compiler's C++ library takes for granted of glibc and musl, which dsec-tool is linked with, does not have.
// Nothing else in it is of one libc only: strings, containers and exceptions need memory, and little more.
#include <dlfcn.h>

extern "C" {

// sys/single_threaded.h: whether reference counts need no atomic operations. There are no threads here.
char __libc_single_threaded = 1;

// Where the unwinding tables of a loaded object are. A static program has registered its own as it started (crtbeginT.o),
// and those are looked at first; there is no other object to be found.
int _dl_find_object(void*, dl_find_object*) noexcept { return -1; }

}  // extern "C"
