#include "launcher/devices.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string>

#include "base/files.h"
#include "launcher/mounts.h"

namespace dsec {
namespace {

struct Node {
  const char* name;
  unsigned major, minor;  // Documentation/admin-guide/devices.txt of the kernel
};
constexpr Node kNodes[] = {{"null", 1, 3}, {"zero", 1, 5},    {"full", 1, 7},
                           {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

struct Link {
  const char* name;
  const char* target;
};
constexpr Link kLinks[] = {{"fd", "/proc/self/fd"},
                           {"stdin", "/proc/self/fd/0"},
                           {"stdout", "/proc/self/fd/1"},
                           {"stderr", "/proc/self/fd/2"}};

}  // namespace

Result<void> make_device_template(const char* folder) {
  if (::mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755,size=64k") != 0) {
    return failed("mount tmpfs", folder);
  }
  const std::string base = std::string(folder) + "/";
  for (const Node& node : kNodes) {
    const std::string path = base + node.name;
    if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(node.major, node.minor)) != 0) return failed("mknod", path);
    if (::chmod(path.c_str(), 0666) != 0) return failed("chmod", path);
  }
  for (const Link& link : kLinks) {
    if (::symlink(link.target, (base + link.name).c_str()) != 0) return failed("symlink", base + link.name);
  }
  TRY(make_directory(base + "shm", 0755));
  return set_mount_attributes(AT_FDCWD, folder, {.set = MOUNT_ATTR_RDONLY});
}

Result<void> mount_devices(const char* device_template) {
  TRY_ASSIGN(devices, clone_mount(AT_FDCWD, device_template));
  TRY(attach_mount(devices.get(), "dev"));
  return mount_new("tmpfs", {{"mode", "1777"}, {"size", "64m"}}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "dev/shm");
}

}  // namespace dsec
