// Tries, from inside a sandbox, what a sandbox must not be able to do. Prints a line for each attempt: its name and
// "done", or the errno's name. The test compares with what is expected and looks at the host besides.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace {

void report(const char* name, long result) {
  std::printf("%s %s\n", name, result >= 0 ? "done" : strerrorname_np(errno));
  std::fflush(stdout);
}

long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
  return ::syscall(number, a, b, c, d, e);
}

long text(const char* text) { return reinterpret_cast<long>(text); }

// Files of /proc that must not be reached are covered with /dev/null, which anybody may open.
int open_uncovered(const char* path, int flags) {
  int file = ::open(path, flags);
  struct stat status{};
  if (file < 0 || ::fstat(file, &status) != 0 || status.st_rdev != makedev(1, 3)) return file;
  errno = EACCES;
  return -1;
}

// Powers over files, used on what is not the sandbox's own. Root of a sandbox has them over its own.
void files() {
  report("chown_to_other", ::chown("/work", 1000, 1000));
  report("chown_to_unmapped", ::chown("/work", 65536, 65536));
  report("chown_usr", ::chown("/usr/bin/true", 1000, 1000));
  report("chmod_usr", ::chmod("/usr/bin/true", 04777));
  report("write_program", ::open("/usr/bin/true", O_WRONLY));
  report("remove_program", ::unlink("/usr/bin/true"));
  report("chmod_input", ::chmod("/attempts", 04777));
  report("chown_input", ::chown("/attempts", 1000, 1000));
  report("chmod_device", ::chmod("/dev/null", 0600));
  report("chown_device", ::chown("/dev/null", 1000, 1000));
  report("chown_standard_output", ::fchown(STDOUT_FILENO, 1000, 1000));
  report("chmod_shared_memory", ::chmod("/dev/shm", 0700));
  report("chown_proc", ::chown("/proc/version", 1000, 1000));
  report("mknod_null", ::mknod("/work/null", S_IFCHR | 0666, makedev(1, 3)));
  report("trusted_attribute", ::setxattr("/work", "trusted.overlay.opaque", "y", 1, 0));
  const unsigned char file_capabilities[20] = {0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff};
  report("file_capabilities", ::setxattr("/work", "security.capability", file_capabilities, sizeof file_capabilities, 0));
  report("chmod_setuid", ::close(::open("/work/setuid", O_CREAT | O_WRONLY, 0755)) | ::chmod("/work/setuid", 04755));
}

// A capability that root of a sandbox does not have, by asking for it.
void capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  sets[0] = {~0U, ~0U, 0};
  report("capset_all", call(SYS_capset, reinterpret_cast<long>(&header), reinterpret_cast<long>(sets)));
  report("capset_inheritable", [&] {
    sets[0] = {0, 0, 1U << CAP_SYS_ADMIN};
    return call(SYS_capset, reinterpret_cast<long>(&header), reinterpret_cast<long>(sets));
  }());
  report("ambient", ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0));
  report("securebits", ::prctl(PR_SET_SECUREBITS, 0, 0, 0, 0));
}

// Another identity: of its own ids, but never back, and no other.
void identity() {
  report("become_unmapped", ::setresuid(65536, 65536, 65536));
  report("join_unmapped_group", [] {
    const gid_t group = 65536;
    return call(SYS_setgroups, 1, reinterpret_cast<long>(&group));
  }());
  report("become_other", ::setresuid(1000, 1000, 1000));
  report("other_becomes_root", ::setresuid(0, 0, 0));
  report("other_chowns", ::chown("/work/setuid", 1000, 1000));
  report("other_reads_root", ::open("/work/private", O_RDONLY));
}

void namespaces_and_mounts() {
  report("unshare_user", call(SYS_unshare, CLONE_NEWUSER));
  report("unshare_mount", call(SYS_unshare, CLONE_NEWNS));
  report("clone_user", call(SYS_clone, CLONE_NEWUSER | SIGCHLD));
  report("clone_high_bits", call(SYS_clone, CLONE_NEWNET | CLONE_NEWPID | SIGCHLD));
  uint64_t arguments[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0};
  report("clone3", call(SYS_clone3, reinterpret_cast<long>(arguments), sizeof arguments));
  report("setns", call(SYS_setns, ::open("/proc/self/ns/net", O_RDONLY), 0));
  report("mount", call(SYS_mount, text("none"), text("/tmp"), text("tmpfs"), 0, 0));
  report("umount", call(SYS_umount2, text("/proc"), MNT_DETACH));
  report("remount", call(SYS_mount, 0, text("/usr"), 0, MS_REMOUNT | MS_BIND, 0));
  report("fsopen", call(SYS_fsopen, text("tmpfs"), 0));
  report("open_tree", call(SYS_open_tree, AT_FDCWD, text("/"), 1));
  report("move_mount", call(SYS_move_mount, AT_FDCWD, text("/usr"), AT_FDCWD, text("/mnt"), 0));
  report("pivot_root", call(SYS_pivot_root, text("."), text(".")));
  report("chroot", call(SYS_chroot, text("/tmp")));
}

void kernel_surface() {
  report("ptrace", call(SYS_ptrace, PTRACE_TRACEME));
  report("process_vm_readv", call(SYS_process_vm_readv, 1));
  report("pidfd_getfd", call(SYS_pidfd_getfd, 0, 0, 0));
  report("io_uring_setup", call(SYS_io_uring_setup, 1, 0));
  report("userfaultfd", call(SYS_userfaultfd, 0));
  report("bpf", call(SYS_bpf, 0, 0, 0));
  report("perf_event_open", call(SYS_perf_event_open, 0, 0, -1, -1, 0));
  report("keyctl", call(SYS_keyctl, 0, 0));
  report("add_key", call(SYS_add_key, text("user"), text("k"), text("v"), 1, -2));
  report("kexec_load", call(SYS_kexec_load, 0, 0, 0, 0));
  report("init_module", call(SYS_init_module, 0, 0, 0));
  report("reboot", call(SYS_reboot, 0, 0, 0, 0));
  report("open_by_handle_at", call(SYS_open_by_handle_at, AT_FDCWD, 0, 0));
  report("syslog", call(SYS_syslog, 3, 0, 0));
  report("personality", call(SYS_personality, 0x0040000));
  report("personality_query", call(SYS_personality, 0xffffffff));
  report("mbind", call(SYS_mbind, 0, 0, 0));
  report("get_mempolicy", call(SYS_get_mempolicy, 0, 0, 0, 0, 0));
  report("request_key", call(SYS_request_key, 0, 0, 0, 0));
  report("modify_ldt", call(SYS_modify_ldt, 0, 0, 0));
  report("settimeofday", call(SYS_settimeofday, 0, 0));
  report("sethostname", call(SYS_sethostname, text("x"), 1));
  report("mknod_disk", ::mknod("/tmp/disk", S_IFBLK | 0600, makedev(254, 0)));
  // A 32-bit system call has other numbers: 21 is mount(2) there.
#if defined(__x86_64__)
  long number = 21;
  asm volatile("int $0x80" : "+a"(number) : "b"(0), "c"(0), "d"(0), "S"(0), "D"(0) : "memory");
  errno = static_cast<int>(-number);
  report("mount_32_bit", number < 0 ? -1 : 0);
#endif
}

void sockets() {
  report("socket_vsock", ::socket(AF_VSOCK, SOCK_STREAM, 0));
  report("socket_packet", ::socket(AF_PACKET, SOCK_RAW, 0));
  report("socket_netfilter", ::socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER));
  report("socket_audit", ::socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT));
  report("socket_raw", ::socket(AF_INET, SOCK_RAW, 1));
  // The upper half of the register is not part of the family.
  report("socket_high_bits", call(SYS_socket, 0x100000000L | AF_VSOCK, SOCK_STREAM, 0));
  report("socket_unix", ::socket(AF_UNIX, SOCK_STREAM, 0));
  report("socket_inet", ::socket(AF_INET, SOCK_STREAM, 0));
  report("socket_inet6", ::socket(AF_INET6, SOCK_STREAM, 0));
  report("socket_udp", ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  report("socket_sctp", ::socket(AF_INET, SOCK_STREAM, 132));  // IPPROTO_SCTP
  report("socket_sctp_packets", ::socket(AF_INET6, SOCK_SEQPACKET, 0));
  report("socket_dccp", ::socket(AF_INET, SOCK_DCCP, 0));
  report("socket_kernel_crypto", ::socket(AF_ALG, SOCK_SEQPACKET, 0));
  report("socket_pair_vsock", [] {
    int ends[2];
    return ::socketpair(AF_VSOCK, SOCK_STREAM, 0, ends);
  }());
  report("socket_l2tp", ::socket(AF_INET, SOCK_DGRAM, 115));  // IPPROTO_L2TP
  report("socket_route", ::socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
  report("tiocsti", ::ioctl(0, TIOCSTI, "x"));
  report("tiocsti_high_bits", call(SYS_ioctl, 0, 0x100000000L | TIOCSTI, text("x")));
  report("tioclinux", ::ioctl(0, 0x541c, "x"));
}

void init() {
  report("kill_init", ::kill(1, SIGKILL));
  report("init_memory", ::open("/proc/1/mem", O_RDWR));
  report("init_descriptors", ::open("/proc/1/fd/3", O_RDWR));
  report("init_root", ::open("/proc/1/root/etc/passwd", O_RDONLY));
  char target[256];
  report("init_executable", ::readlink("/proc/1/exe", target, sizeof target));
  report("raise_priority", call(SYS_setpriority, 0, 0, -10));
  report("oom_score", ::open("/proc/1/oom_score_adj", O_WRONLY));
  report("sysctl", ::open("/proc/sys/kernel/hostname", O_WRONLY));
  report("sysrq", open_uncovered("/proc/sysrq-trigger", O_WRONLY));
  report("kernel_memory", open_uncovered("/proc/kcore", O_RDONLY));
  report("kernel_timers", open_uncovered("/proc/timer_list", O_RDONLY));
  report("kernel_command_line", open_uncovered("/proc/cmdline", O_RDONLY));
  report("write_usr", ::open("/usr/bin/planted", O_CREAT | O_WRONLY, 0755));
  report("write_dev", ::open("/dev/planted", O_CREAT | O_WRONLY, 0644));
}

}  // namespace

int main() {
  namespaces_and_mounts();
  kernel_surface();
  sockets();
  init();
  files();
  capabilities();
  ::close(::open("/work/private", O_CREAT | O_WRONLY, 0600));
  identity();
  return 0;
}
