#include "launcher/proc.h"

#include <fcntl.h>

#include <string>

#include "launcher/mounts.h"

namespace dsec {
namespace {

constexpr const char* kReadOnly[] = {"proc/sys", "proc/irq", "proc/bus", "proc/fs"};
constexpr const char* kCovered[] = {"proc/kcore", "proc/keys", "proc/key-users", "proc/timer_list", "proc/sysrq-trigger",
                                    "proc/cmdline"};

// Not every kernel is built with every file.
bool is_absent(const Error& error) { return error.number == ENOENT; }

}  // namespace

Result<void> mount_proc() {
  TRY(mount_new("proc", {}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "proc"));
  for (const char* path : kReadOnly) {
    Result<Fd> mount = clone_mount(AT_FDCWD, path);
    if (!mount && is_absent(mount.error())) continue;
    if (!mount) return std::move(mount).error();
    TRY(set_mount_attributes(mount->get(), "", {.set = MOUNT_ATTR_RDONLY}));
    TRY(attach_mount(mount->get(), path));
  }
  for (const char* path : kCovered) {
    TRY_ASSIGN(null, clone_mount(AT_FDCWD, "dev/null"));
    Result<void> covered = attach_mount(null.get(), path);
    if (!covered && !is_absent(covered.error())) return covered;
  }
  return {};
}

}  // namespace dsec
