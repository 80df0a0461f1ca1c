// Pid 1 of a sandbox: waits to be let go, starts the command, reaps whatever is orphaned, tells the launcher how the
// command ended, and exits, at which the kernel kills all that is left in the pid namespace.
//
//   dsec-init COMMAND [ARGUMENT]...        descriptor 3: the launcher's SEQPACKET control socket
//
// Freestanding on purpose: it is executed for every sandbox, so it has no loader, no libc and no heap.
#include <asm/unistd.h>
#include <linux/prctl.h>

#include "init/report.h"

namespace {

long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
#if defined(__x86_64__)
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "dsec-init knows the system call convention of x86-64 and AArch64"
#endif
}

long address(const void* pointer) { return reinterpret_cast<long>(pointer); }

constexpr int kControl = 3;
constexpr long kSigchld = 17, kEnoent = 2, kEintr = 4, kEacces = 13, kEnotdir = 20, kEnametoolong = 36, kEloop = 40;
constexpr long kAtFdcwd = -100;
constexpr long kFSetFd = 2, kFdCloexec = 1;
constexpr long kProtReadWrite = 3, kMapSharedAnonymous = 0x21;
constexpr int kPathMax = 4096;

[[noreturn]] void leave(int status) {
  for (;;) call(__NR_exit_group, status);
}

const char* value_of(char** environment, const char* name) {
  for (; *environment; environment++) {
    const char* entry = *environment;
    const char* letter = name;
    while (*letter && *entry == *letter) entry++, letter++;
    if (!*letter && *entry == '=') return entry + 1;
  }
  return nullptr;
}

bool has_slash(const char* text) {
  for (; *text; text++) {
    if (*text == '/') return true;
  }
  return false;
}

// Why a command did not start.
struct Failure {
  long number;
  bool is_found;
};

// execve(2) of one file. Returns only on failure; ENOENT may also mean the interpreter of a script, or the loader.
Failure execute_file(const char* path, char** arguments, char** environment) {
  long number = -call(__NR_execve, address(path), address(arguments), address(environment));
  if (number == kEnoent) return {number, call(__NR_faccessat, kAtFdcwd, address(path), 0) == 0};
  return {number, number != kEnotdir && number != kEnametoolong && number != kEloop};
}

// Searches PATH for a plain name as execvp(3) does. Returns only on failure, with the one that tells most: a file that
// is there but does not start outweighs one that is not there.
Failure execute(char** arguments, char** environment) {
  const char* name = arguments[0];
  if (!*name) return {kEnoent, false};
  if (has_slash(name)) return execute_file(name, arguments, environment);
  const char* path = value_of(environment, "PATH");
  if (!path) path = "/usr/local/bin:/usr/bin:/bin";
  Failure best{kEnoent, false};
  char candidate[kPathMax];
  for (;;) {
    int length = 0;
    bool fits = true;
    auto append = [&](char letter) {
      if (length < kPathMax - 1) candidate[length++] = letter;
      else fits = false;
    };
    for (; *path && *path != ':'; path++) append(*path);
    if (length == 0) append('.');
    append('/');
    for (const char* letter = name; *letter; letter++) append(*letter);
    candidate[length] = 0;
    Failure failure = fits ? execute_file(candidate, arguments, environment) : Failure{kEnametoolong, false};
    long number = failure.number;
    if (number != kEacces && number != kEnoent && number != kEnotdir) return failure;
    if (failure.is_found) best = failure;
    if (!*path) return best;
    path++;
  }
}

}  // namespace

extern "C" [[noreturn, gnu::used]] void dsec_init_main(long* stack) {
  char** arguments = reinterpret_cast<char**>(stack + 1);
  char** environment = arguments + stack[0] + 1;
  // Nothing inside may look into this process: its descriptor 3 is the launcher's ear.
  call(__NR_prctl, PR_SET_DUMPABLE, 0);
  call(__NR_fcntl, kControl, kFSetFd, kFdCloexec);

  char go;
  if (call(__NR_read, kControl, address(&go), 1) != 1) leave(1);

  // The command's process tells why its execve failed through a page that a successful execve drops.
  long page = call(__NR_mmap, 0, 4096, kProtReadWrite, kMapSharedAnonymous, -1, 0);
  if (page < 0 && page > -4096) leave(1);
  volatile dsec::InitReport* failed = reinterpret_cast<volatile dsec::InitReport*>(page);

  long command = call(__NR_clone, kSigchld);
  if (command == 0) {
    // A session of its own, so that kill(0) in the command reaches its own group only.
    call(__NR_setsid);
    const Failure failure = execute(arguments + 1, environment);
    failed->is_found = failure.is_found;
    failed->exec_error = static_cast<int>(failure.number);
    leave(failure.is_found ? 126 : 127);
  }
  dsec::InitReport report{};
  if (command < 0) {
    report.exec_error = static_cast<int>(-command);
    report.is_found = 1;
  } else {
    for (;;) {
      int status = 0;
      long dead = call(__NR_wait4, -1, address(&status), 0, 0);
      if (dead == command) {
        report.exec_error = failed->exec_error;
        report.is_found = failed->is_found;
        report.wait_status = status;
        break;
      }
      if (dead < 0 && dead != -kEintr) leave(1);
    }
  }
  call(__NR_write, kControl, address(&report), sizeof report);
  leave(0);
}

#if defined(__x86_64__)
asm(".globl _start\n_start:\n  xor %ebp, %ebp\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call dsec_init_main\n");
#else
asm(".globl _start\n_start:\n  mov x29, #0\n  mov x0, sp\n  bl dsec_init_main\n");
#endif
