#include "launcher/seccomp.h"

#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <type_traits>

#include "base/fd.h"
#include "launcher/socket_filter.h"

namespace dsec {
namespace {

constexpr const char* kFiles[] = {
    "access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3",
    "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown",
    "fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat",
    "fstatfs", "fsync", "ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "getxattr", "inotify_add_watch",
    "inotify_init", "inotify_init1", "inotify_rm_watch", "lchown", "lgetxattr", "link", "linkat", "listxattr",
    "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "mkdir", "mkdirat", "newfstatat", "open", "openat",
    "openat2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink",
    "readlinkat", "readv", "removexattr", "rename", "renameat", "renameat2", "rmdir", "sendfile", "setxattr", "splice",
    "stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "tee", "truncate", "umask",
    "unlink", "unlinkat", "utime", "utimensat", "utimes", "vmsplice", "write", "writev", "cachestat"};

constexpr const char* kMemory[] = {
    "brk", "madvise", "membarrier", "memfd_create", "mincore", "mlock", "mlock2", "mlockall", "mmap", "mprotect",
    "mremap", "mseal", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect",
    "shmat", "shmctl", "shmdt", "shmget", "map_shadow_stack"};

constexpr const char* kProcesses[] = {
    "arch_prctl", "capget", "capset", "execve", "execveat", "exit", "exit_group", "fork", "getcpu", "getegid",
    "geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getresgid",
    "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid", "ioprio_get", "ioprio_set", "kill",
    "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "pidfd_open", "pidfd_send_signal",
    "prctl", "prlimit64", "rseq", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
    "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity",
    "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield", "seccomp", "set_robust_list",
    "get_robust_list", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups", "setpgid", "setpriority",
    "setregid", "setresgid", "setresuid", "setreuid", "setrlimit", "setsid", "setuid", "sysinfo", "tgkill", "times",
    "tkill", "uname", "vfork", "wait4", "waitid", "getrandom", "process_mrelease"};

constexpr const char* kSignalsAndTime[] = {
    "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "getitimer", "gettimeofday", "nanosleep", "pause",
    "restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "setitimer", "sigaltstack", "signalfd", "signalfd4",
    "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create",
    "timerfd_gettime", "timerfd_settime"};

constexpr const char* kWaiting[] = {
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2",
    "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "poll", "ppoll", "pselect6", "select",
    "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit"};

constexpr const char* kTalking[] = {
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "mq_getsetattr",
    "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd",
    "pipe", "pipe2", "recvfrom", "recvmmsg", "recvmsg", "semctl", "semget", "semop", "semtimedop", "sendmmsg",
    "sendmsg", "sendto", "setsockopt", "shutdown"};

// Known and refused, as to who may not. Capabilities and namespaces already forbid most; this keeps their code out of reach
// as well. Of what is on no list programs are told that this kernel lacks it, which they know from kernels built so: keys,
// the placing of memory (all of it, or half an answer would have libnuma go on), secret memory, segment tables.
constexpr const char* kRefused[] = {
    "acct", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime", "delete_module", "fanotify_init",
    "fanotify_mark", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "init_module", "io_uring_enter",
    "io_uring_register", "io_uring_setup", "ioperm", "iopl", "kexec_file_load", "kexec_load", "mount", "mount_setattr",
    "move_mount", "name_to_handle_at", "open_by_handle_at", "open_tree", "perf_event_open", "pidfd_getfd", "pivot_root",
    "process_vm_readv", "process_vm_writev", "ptrace", "quotactl", "quotactl_fd", "reboot", "setdomainname",
    "sethostname", "setns", "settimeofday", "swapoff", "swapon", "syslog", "umount2", "unshare", "userfaultfd",
    "vhangup"};

struct ReleaseFilter {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};
using Filter = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, ReleaseFilter>;

Error filter_failed(const char* call, std::string object, int code) {
  return Error{call, std::move(object), -code, "HOST_UNSUITABLE"};
}

template <size_t N>
Result<void> add_all(scmp_filter_ctx filter, uint32_t action, const char* const (&names)[N]) {
  for (const char* name : names) {
    int number = ::seccomp_syscall_resolve_name(name);
    // A name this libseccomp or this processor does not have falls to the default.
    if (number == __NR_SCMP_ERROR || number < 0) continue;
    int code = ::seccomp_rule_add(filter, action, number, 0);
    if (code != 0) return filter_failed("seccomp_rule_add", name, code);
  }
  return {};
}

Result<void> add(scmp_filter_ctx filter, uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> arguments) {
  int number = ::seccomp_syscall_resolve_name(name);
  int code = ::seccomp_rule_add_array(filter, action, number, static_cast<unsigned>(arguments.size()),
                                      arguments.begin());
  if (code != 0) return filter_failed("seccomp_rule_add_array", name, code);
  return {};
}

// Threads and processes, but no namespaces. clone3 carries its flags in memory that a filter cannot read; it is not on
// the list, and its ENOSYS makes every libc fall back to clone.
Result<void> allow_clone(scmp_filter_ctx filter) {
  constexpr uint64_t kNamespaces[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                      CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
  uint64_t any = 0;
  for (const uint64_t flag : kNamespaces) {
    TRY(add(filter, SCMP_ACT_ERRNO(EPERM), "clone", {SCMP_A0_64(SCMP_CMP_MASKED_EQ, flag, flag)}));
    any |= flag;
  }
  return add(filter, SCMP_ACT_ALLOW, "clone", {SCMP_A0_64(SCMP_CMP_MASKED_EQ, any, 0)});
}

// What uname(2) says of the machine, and asking (0xffffffff). Nothing that makes memory easier to attack.
Result<void> allow_personality(scmp_filter_ctx filter) {
  for (const uint64_t persona : {0x0ULL, 0x8ULL, 0x2'0000ULL, 0x2'0008ULL, 0xffff'ffffULL}) {
    TRY(add(filter, SCMP_ACT_ALLOW, "personality", {SCMP_A0_32(SCMP_CMP_EQ, persona)}));
  }
  return {};
}

// Named pipes and sockets and plain files, but no devices.
Result<void> allow_nodes(scmp_filter_ctx filter) {
  for (uint64_t type : {0, S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK}) {
    const uint32_t action = type == S_IFCHR || type == S_IFBLK ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW;
    TRY(add(filter, action, "mknod", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, S_IFMT, type)}));
    TRY(add(filter, action, "mknodat", {SCMP_A2_64(SCMP_CMP_MASKED_EQ, S_IFMT, type)}));
  }
  return {};
}

// Typing into a terminal (TIOCSTI) and its console cousin (TIOCLINUX) are ways out of a sandbox that shares one. The
// kernel reads the request as 32 bits of a 64-bit register, so a comparison of the whole register could be fooled by
// its upper half. Rules with masks look at the lower half only: allowed is what differs from both in one of the upper
// 28 bits, and what agrees there but has another last digit.
Result<void> allow_ioctl(scmp_filter_ctx filter) {
  constexpr uint64_t kTioclinux = 0x541c;  // in no header of the C library
  constexpr uint64_t kLow = 0xffff'ffff, kShared = TIOCSTI & ~0xfULL;
  static_assert(kShared == (kTioclinux & ~0xfULL));
  for (int bit = 4; bit < 32; bit++) {
    const uint64_t mask = 1ULL << bit;
    TRY(add(filter, SCMP_ACT_ALLOW, "ioctl", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, mask, ~kShared & mask)}));
  }
  for (uint64_t digit = 0; digit < 16; digit++) {
    const uint64_t request = kShared | digit;
    const uint32_t action = request == TIOCSTI || request == kTioclinux ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW;
    TRY(add(filter, action, "ioctl", {SCMP_A1_64(SCMP_CMP_MASKED_EQ, kLow, request)}));
  }
  return {};
}

}  // namespace

Result<SeccompFilter> SeccompFilter::compile() {
  Filter filter(::seccomp_init(SCMP_ACT_ERRNO(ENOSYS)));
  if (!filter) return Error{"seccomp_init", "", ENOMEM, "HOST_UNSUITABLE"};
  // The launcher sets no_new_privs itself. Another processor mode (32-bit, x32) would number the calls differently.
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_NNP, 0);
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
  ::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  TRY(add_all(filter.get(), SCMP_ACT_ALLOW, kFiles));
  TRY(add_all(filter.get(), SCMP_ACT_ALLOW, kMemory));
  TRY(add_all(filter.get(), SCMP_ACT_ALLOW, kProcesses));
  TRY(add_all(filter.get(), SCMP_ACT_ALLOW, kSignalsAndTime));
  TRY(add_all(filter.get(), SCMP_ACT_ALLOW, kWaiting));
  TRY(add_all(filter.get(), SCMP_ACT_ALLOW, kTalking));
  TRY(add_all(filter.get(), SCMP_ACT_ERRNO(EPERM), kRefused));
  TRY(allow_clone(filter.get()));
  TRY(allow_personality(filter.get()));
  TRY(allow_nodes(filter.get()));
  TRY(allow_ioctl(filter.get()));

  Fd file(::memfd_create("seccomp", MFD_CLOEXEC));
  if (!file) return failed("memfd_create", "seccomp");
  int code = ::seccomp_export_bpf(filter.get(), file.get());
  if (code != 0) return filter_failed("seccomp_export_bpf", "", code);
  off_t bytes = ::lseek(file.get(), 0, SEEK_END);
  SeccompFilter compiled;
  // Jumps are relative, so that one program can stand before another.
  compiled.program_ = socket_rules();
  const size_t head = compiled.program_.size();
  compiled.program_.resize(head + static_cast<size_t>(bytes) / sizeof(sock_filter));
  if (::pread(file.get(), compiled.program_.data() + head, static_cast<size_t>(bytes), 0) != bytes) {
    return failed("pread", "the seccomp program");
  }
  return compiled;
}

Result<void> SeccompFilter::load() const {
  sock_fprog program{static_cast<unsigned short>(program_.size()), const_cast<sock_filter*>(program_.data())};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) return failed("seccomp");
  return {};
}

}  // namespace dsec
