#include "launcher/proc.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "launcher/mounts.h"

namespace dsec {
namespace {

constexpr const char* kReadOnly[] = {"proc/sys", "proc/irq", "proc/bus", "proc/fs"};
constexpr const char* kCovered[] = {"proc/kcore", "proc/keys", "proc/key-users", "proc/timer_list", "proc/sysrq-trigger",
                                    "proc/cmdline"};

// Not every kernel is built with every file. Looked at first: a copy of a mount that finds no place costs a wait for
// every processor (synchronize_rcu) when it is given up.
bool is_present(const char* path) { return ::access(path, F_OK) == 0; }

}  // namespace

Result<void> mount_proc() {
  TRY(mount_new("proc", {}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "proc"));
  for (const char* path : kReadOnly) {
    if (!is_present(path)) continue;
    TRY_ASSIGN(mount, clone_mount(AT_FDCWD, path));
    TRY(set_mount_attributes(mount.get(), "", {.set = MOUNT_ATTR_RDONLY}));
    TRY(attach_mount(mount.get(), path));
  }
  for (const char* path : kCovered) {
    if (!is_present(path)) continue;
    TRY_ASSIGN(null, clone_mount(AT_FDCWD, "dev/null"));
    TRY(attach_mount(null.get(), path));
  }
  return {};
}

}  // namespace dsec
