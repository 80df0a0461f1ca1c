#include "launcher/namespaces.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/files.h"
#include "launcher/devices.h"

namespace dsec {
namespace {

constexpr size_t kNetworkNamespacesKept = 16;

Result<Fd> make_network_namespace() {
  TRY_ASSIGN(ours, open_at(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY));
  if (::unshare(CLONE_NEWNET) != 0) return failed("unshare", "CLONE_NEWNET");
  Result<Fd> made = [&]() -> Result<Fd> {
    Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket) return failed("socket", "AF_INET");
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return failed("ioctl SIOCSIFFLAGS", "lo");
    return open_at(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY);
  }();
  if (::setns(ours.get(), CLONE_NEWNET) != 0) return failed("setns", "the launcher's network namespace");
  return made;
}

}  // namespace

Result<Fd> make_user_namespace(uint32_t first_id) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed("pipe2");
  Fd read_end(ends[0]), write_end(ends[1]);
  // A process has to be in the new namespace until its maps are written; this one lives for nothing else.
  pid_t holder = static_cast<pid_t>(::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (holder < 0) return failed("clone", "CLONE_NEWUSER");
  if (holder == 0) {
    ::close(ends[1]);
    char end_of_file;
    while (::read(ends[0], &end_of_file, 1) < 0 && errno == EINTR) {
    }
    ::_exit(0);
  }
  Result<Fd> made = [&]() -> Result<Fd> {
    const std::string process = "/proc/" + std::to_string(holder);
    const std::string map = "0 " + std::to_string(first_id) + " " + std::to_string(kIdsPerSlot);
    TRY(write_file(AT_FDCWD, process + "/uid_map", map));
    TRY(write_file(AT_FDCWD, process + "/gid_map", map));
    return open_at(AT_FDCWD, process + "/ns/user", O_RDONLY);
  }();
  write_end.reset();
  while (::waitpid(holder, nullptr, 0) < 0 && errno == EINTR) {
  }
  return made;
}

Result<void> enter_private_mount_namespace() {
  if (::unshare(CLONE_NEWNS) != 0) return failed("unshare", "CLONE_NEWNS");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return failed("mount MS_SLAVE", "/");
  return {};
}

Result<Fd> make_skeleton_mount_namespace(const char* scratch) {
  TRY_ASSIGN(ours, open_at(AT_FDCWD, "/proc/thread-self/ns/mnt", O_RDONLY));
  // Opened here because the skeleton has no /proc of its own.
  TRY_ASSIGN(process, open_at(AT_FDCWD, "/proc/thread-self/ns", O_RDONLY | O_DIRECTORY));
  if (::unshare(CLONE_NEWNS) != 0) return failed("unshare", "CLONE_NEWNS");
  Result<Fd> made = [&]() -> Result<Fd> {
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failed("mount MS_PRIVATE", "/");
    if (::mount("tmpfs", scratch, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k") != 0) {
      return failed("mount tmpfs", scratch);
    }
    if (::chdir(scratch) != 0) return failed("chdir", scratch);
    TRY(make_directory("sandbox", 0755));
    TRY(make_directory("dev-template", 0755));
    TRY(make_device_template("dev-template"));
    if (::syscall(SYS_pivot_root, ".", ".") != 0) return failed("pivot_root", scratch);
    if (::umount2(".", MNT_DETACH) != 0) return failed("umount2", "the host's root");
    if (::mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) != 0) {
      return failed("mount MS_RDONLY", "the skeleton's root");
    }
    return open_at(process.get(), "mnt", O_RDONLY);
  }();
  if (::setns(ours.get(), CLONE_NEWNS) != 0) return failed("setns", "the launcher's mount namespace");
  return made;
}

Result<Fd> NetworkNamespaces::take() {
  if (ready_.empty()) return make_network_namespace();
  Fd taken = std::move(ready_.back());
  ready_.pop_back();
  return taken;
}

Result<bool> NetworkNamespaces::refill() {
  if (ready_.size() >= kNetworkNamespacesKept) return false;
  TRY_ASSIGN(made, make_network_namespace());
  ready_.push_back(std::move(made));
  return ready_.size() < kNetworkNamespacesKept;
}

}  // namespace dsec
