#include "launcher/child.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "launcher/capabilities.h"
#include "launcher/clone.h"
#include "launcher/devices.h"
#include "launcher/in_root.h"
#include "launcher/mounts.h"
#include "launcher/proc.h"

namespace dsec {
namespace {

struct ResourceLimit {
  __rlimit_resource resource;
  rlim_t soft, hard;
};
// Documented in docs/sandbox.md; memory, processes and CPU are limited by the cgroup.
constexpr ResourceLimit kResourceLimits[] = {
    // 0 would still run a core handler that the host has set as a pipe; 1 is core(5)'s word for none of any kind.
    {RLIMIT_CORE, 1, 1},
    {RLIMIT_NOFILE, 1024, 65536},
    {RLIMIT_STACK, 8 << 20, RLIM_INFINITY},
    {RLIMIT_MEMLOCK, 8 << 20, 8 << 20},
    {RLIMIT_MSGQUEUE, 819200, 819200},
    {RLIMIT_NICE, 0, 0},
    {RLIMIT_RTPRIO, 0, 0},
    {RLIMIT_FSIZE, RLIM_INFINITY, RLIM_INFINITY},
    {RLIMIT_AS, RLIM_INFINITY, RLIM_INFINITY},
    {RLIMIT_CPU, RLIM_INFINITY, RLIM_INFINITY},
    {RLIMIT_DATA, RLIM_INFINITY, RLIM_INFINITY},
};

Result<void> enter_namespaces(const ChildPlan& plan) {
  TRY(plan.cgroup->attach_self());
  // After the last attach: the namespace's root is where the process sits at this moment.
  if (::unshare(CLONE_NEWCGROUP) != 0) return failed("unshare", "CLONE_NEWCGROUP");
  if (::setns(plan.network_namespace, CLONE_NEWNET) != 0) return failed("setns", "CLONE_NEWNET");
  if (::unshare(CLONE_NEWIPC | CLONE_NEWUTS) != 0) return failed("unshare", "CLONE_NEWIPC | CLONE_NEWUTS");
  if (::sethostname(plan.hostname.data(), plan.hostname.size()) != 0) return failed("sethostname", plan.hostname);
  if (::setns(plan.skeleton_namespace, CLONE_NEWNS) != 0) return failed("setns", "CLONE_NEWNS");
  if (::unshare(CLONE_NEWNS) != 0) return failed("unshare", "CLONE_NEWNS");
  return {};
}

// A target below another mount would be bound where nothing inside can see it.
Result<void> check_visible(const ChildBind& bind) {
  struct stat wanted{}, found{};
  if (::fstat(bind.mount.get(), &wanted) != 0) return failed("fstat", bind.path);
  Result<Fd> seen = open_in_root(AT_FDCWD, bind.path, O_PATH);
  if (seen && ::fstat(seen->get(), &found) == 0 && wanted.st_dev == found.st_dev && wanted.st_ino == found.st_ino) {
    return {};
  }
  return Error{"mount target", bind.path + " lies below another mount of the sandbox", 0, "INVALID_REQUEST"};
}

Result<void> enter_root(const ChildPlan& plan) {
  TRY(attach_mount(plan.root, "/sandbox"));
  if (::chdir("/sandbox") != 0) return failed("chdir", "/sandbox");
  TRY(mount_devices("/dev-template"));
  TRY(mount_proc());
  for (const PlacedMount& file : plan.limits_view) TRY(attach_mount(file.mount.get(), file.target));
  if (plan.host_usr >= 0) TRY(attach_mount(plan.host_usr, "usr"));
  for (const ChildBind& bind : plan.binds) TRY(attach_mount_at(bind.mount.get(), bind.target.get()));
  for (const ChildBind& bind : plan.binds) TRY(check_visible(bind));
  // Covers the skeleton's root and makes it the only root there is; pivot_root(2) would walk every task of the host.
  if (::move_mount(AT_FDCWD, ".", AT_FDCWD, "/", 0) != 0) return failed("move_mount", "the sandbox's root");
  if (::chroot(".") != 0) return failed("chroot");
  if (::fchdir(plan.working_directory) != 0) return failed("fchdir", "the working directory");
  return {};
}

Result<void> become_sandbox_root(const ChildPlan& plan) {
  for (const ResourceLimit& limit : kResourceLimits) {
    // A launcher without CAP_SYS_RESOURCE cannot raise a hard limit, only hand on its own.
    rlimit ours{};
    if (::getrlimit(limit.resource, &ours) != 0) return failed("getrlimit", std::to_string(limit.resource));
    const rlim_t hard = std::min(limit.hard, ours.rlim_max);
    rlimit value{std::min(limit.soft, hard), hard};
    if (::setrlimit(limit.resource, &value) != 0) return failed("setrlimit", std::to_string(limit.resource));
  }
  ::umask(022);
  if (::setpriority(PRIO_PROCESS, 0, 0) != 0) return failed("setpriority");
  // Last of the namespaces, so that the others belong to the host's: nothing inside has a say over them.
  if (::setns(plan.user_namespace, CLONE_NEWUSER) != 0) return failed("setns", "CLONE_NEWUSER");
  // By system call: the C library would have every thread do it, and this memory is still the launcher's.
  if (::syscall(SYS_setgroups, 0, nullptr) != 0) return failed("setgroups");
  if (::syscall(SYS_setresgid, 0, 0, 0) != 0) return failed("setresgid");
  if (::syscall(SYS_setresuid, 0, 0, 0) != 0) return failed("setresuid");
  TRY(keep_powers_over_own_ids());
  // After the last change of identity, which would clear it: every sandbox dies with the launcher.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return failed("prctl PR_SET_PDEATHSIG");
  return {};
}

Result<void> execute_init(const ChildPlan& plan) {
  using namespace launch_descriptor;
  // Not the launcher's own: without CLONE_SIGHAND the child has a table of its own.
  for (int number : kStopSignals) ::signal(number, SIG_DFL);
  if (::setsid() < 0) return failed("setsid");
  // From here the table is the child's own, and holds nothing above the launch's descriptors.
  if (::syscall(SYS_close_range, kEnd, ~0U, CLOSE_RANGE_UNSHARE) != 0) return failed("close_range");
  constexpr int kFrom[] = {kStdin, kStdout, kStderr, kControl};
  for (int number = 0; number < 4; number++) {
    if (::dup2(kFrom[number], number) < 0) return failed("dup2", std::to_string(number));
  }
  if (::syscall(SYS_close_range, 4, ~0U, CLOSE_RANGE_CLOEXEC) != 0) return failed("close_range");
  TRY(plan.seccomp->load());
  ::syscall(SYS_execveat, kInit, "", plan.arguments.data(), plan.environment.data(), AT_EMPTY_PATH);
  // Init is given the command's own arguments and environment, so the kernel's bound on them shows here.
  if (errno == E2BIG) return failed("execve", plan.arguments[1]).with_code("INVALID_REQUEST");
  return failed("execveat", "dsec-init");
}

struct Start {
  const ChildPlan* plan;
  Result<void> result;
};

Result<void> run(const ChildPlan& plan) {
  TRY(enter_namespaces(plan));
  TRY(enter_root(plan));
  TRY(become_sandbox_root(plan));
  return execute_init(plan);
}

// Runs in the launcher's memory while the launcher is suspended (CLONE_VM | CLONE_VFORK): what it returns is a plain
// value there. It never comes back from a success.
void child_main(void* argument) {
  auto* start = static_cast<Start*>(argument);
  start->result = run(*start->plan);
  ::_exit(1);
}

}  // namespace

Result<void> reserve_launch_descriptors() {
  TRY_ASSIGN(null, open_at(AT_FDCWD, "/dev/null", O_RDWR));
  for (int number = launch_descriptor::kStdin; number < launch_descriptor::kEnd; number++) {
    if (::dup3(null.get(), number, O_CLOEXEC) < 0) return failed("dup3", std::to_string(number));
  }
  return {};
}

Result<Cloned> start_child(const ChildPlan& plan) {
  constexpr size_t kStackBytes = 256 * 1024;
  static char* stack = static_cast<char*>(::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
  if (stack == MAP_FAILED) return failed("mmap", "a stack");
  Start start{&plan, {}};
  TRY_ASSIGN(child, clone_process({.flags = CLONE_NEWPID | CLONE_VM | CLONE_VFORK | CLONE_FILES,
                                   .stack = stack,
                                   .stack_bytes = kStackBytes,
                                   .cgroup = plan.cgroup->birthplace()},
                                  child_main, &start));
  if (start.result) return child;
  while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return std::move(start.result).error();
}

}  // namespace dsec
