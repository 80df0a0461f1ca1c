// Pid 1 of the test guest: loads the modules that initramfs.ts packed, takes the host's root (shared read-only over 9p)
// with a tmpfs over it as its own root, mounts what a distribution would, runs one command, says how it ended, and turns
// the machine off. A failure leaves through the kernel's panic, which ends the emulator as well.
#include <fcntl.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "guest: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

void mount_at(const char* source, const std::string& target, const char* type, unsigned long flags, const char* data) {
  ::mkdir(target.c_str(), 0755);
  expect(::mount(source, target.c_str(), type, flags, data) == 0, std::string("mount ") + type + " on " + target);
}

// In the order in which each finds what it depends on.
void load_modules() {
  std::ifstream order("/modules/order");
  for (std::string name; std::getline(order, name);) {
    int file = ::open(("/modules/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    expect(file >= 0 && (::syscall(SYS_finit_module, file, "", 0) == 0 || errno == EEXIST), "load " + name);
    ::close(file);
  }
}

void enter_root() {
  mount_at("host", "/lower", "9p", MS_RDONLY, "trans=virtio,version=9p2000.L,msize=512000,cache=loose");
  mount_at("tmpfs", "/scratch", "tmpfs", 0, nullptr);
  for (const char* path : {"/scratch/upper", "/scratch/work", "/root"}) ::mkdir(path, 0755);
  mount_at("overlay", "/root", "overlay", 0, "lowerdir=/lower,upperdir=/scratch/upper,workdir=/scratch/work");
  expect(::chdir("/root") == 0 && ::mount(".", "/", nullptr, MS_MOVE, nullptr) == 0 && ::chroot(".") == 0, "enter the root");
  mount_at("devtmpfs", "/dev", "devtmpfs", 0, nullptr);
  mount_at("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  mount_at("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  mount_at("cgroup2", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, "nsdelegate");
  mount_at("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, nullptr);
  // What sandboxes write goes to a real disk: a file system that maps ids, on a device whose operations can be limited.
  mount_at("/dev/vda", "/tmp", "ext4", MS_NOSUID | MS_NODEV, nullptr);
  ::chmod("/tmp", 01777);
}

// Tests connect to what they serve themselves.
void raise_loopback() {
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  expect(::ioctl(socket, SIOCSIFFLAGS, &request) == 0, "raise lo");
  ::close(socket);
}

int run(char** arguments) {
  pid_t command = ::fork();
  if (command == 0) {
    ::setsid();
    ::execv(arguments[0], arguments);
    expect(false, std::string("execute ") + arguments[0]);
  }
  for (int status;;) {
    if (::wait(&status) != command) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

}  // namespace

int main(int, char** arguments) {
  load_modules();
  enter_root();
  raise_loopback();
  int status = run(arguments + 1);
  std::printf("\nguest: ended with %d\n", status);
  std::fflush(stdout);
  ::sync();
  ::reboot(RB_POWER_OFF);
}
