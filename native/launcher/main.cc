// dsec-launcher STATE_DIRECTORY UID_BASE CGROUP_PREFIX INIT
//
// The daemon that makes sandboxes. Node starts it once, with a SEQPACKET socket as descriptor 3, and speaks to it over
// that socket only (see server.cc). It ends, and every sandbox with it, when Node's end closes, which the kernel does
// however Node dies. A parent-death signal would only cut short the cleaning up that follows. For the same reason it and
// its helpers ignore the signals that ask a process to end: who stops a service or a terminal sends them to all its
// processes at once, and Node is to let running sandboxes end first.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/securebits.h>

#include <cstdio>
#include <cstdlib>

#include "base/files.h"
#include "launcher/child.h"
#include "launcher/disk_watch.h"
#include "launcher/helper_process.h"
#include "launcher/host_image.h"
#include "launcher/server.h"
#include "launcher/sweeper.h"
#include "launcher/trial.h"

namespace dsec {
namespace {

constexpr int kNode = 3;

struct Arguments {
  std::string state_directory;
  uint32_t uid_base;
  std::string cgroup_prefix;
  std::string init;
};

// Nothing of the starting process shall show in a sandbox: signals, umask, scheduling, out-of-memory preference. What is
// ignored from here on is the child's to undo (see child.cc).
Result<void> take_neutral_state() {
  sigset_t none;
  sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return failed("sigprocmask");
  for (int number = 1; number < NSIG; number++) ::signal(number, SIG_DFL);
  for (int number : kStopSignals) ::signal(number, SIG_IGN);
  ::umask(022);
  // See FileOwner in overlay.h.
  if (::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) != 0) {
    return failed("prctl PR_SET_SECUREBITS", "run as root").with_code("HOST_UNSUITABLE");
  }
  TRY(write_file(AT_FDCWD, "/proc/self/oom_score_adj", "0"));
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  return {};
}

Result<Host> prepare(const Arguments& arguments) {
  TRY_ASSIGN(state, StateDirectory::open(arguments.state_directory));
  TRY_ASSIGN(cgroups, Cgroups::detect(arguments.cgroup_prefix + "-" + state.hash() + "-"));
  TRY(cgroups.remove_leftovers());
  TRY(state.reset());
  TRY(make_host_image(state.host_image()));
  TRY(enter_private_mount_namespace());
  TRY_ASSIGN(skeleton, make_skeleton_mount_namespace(state.mounts().c_str()));
  if (::mount("tmpfs", state.mounts().c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0) {
    return failed("mount tmpfs", state.mounts());
  }
  TRY_ASSIGN(init, open_at(AT_FDCWD, arguments.init, O_PATH));
  TRY_ASSIGN(seccomp, SeccompFilter::compile());
  // Mounts of slots and images are named relative to this.
  if (::chdir(state.mounts().c_str()) != 0) return failed("chdir", state.mounts());
  Images images(state.host_image());
  TRY_ASSIGN(ranges, IdRanges::open());
  Slots slots(std::move(ranges), arguments.uid_base, state.blanks());
  Blanks blanks(state.blanks(), images.host());
  // Version 2 needs none: there a sandbox's one group is all that Java looks for.
  const bool is_v1 = cgroups.interface().attach_file() != nullptr;
  std::shared_ptr<Cpuset> cpuset = is_v1 ? Cpuset::enter(arguments.cgroup_prefix + "-" + state.hash()) : nullptr;
  TRY_ASSIGN(limits_views, LimitsViews::open("limits", cgroups.hierarchies(), cpuset));
  return Host{std::move(state),
              std::move(cgroups),
              std::move(images),
              std::move(slots),
              std::move(blanks),
              NetworkNamespaces(),
              Processors(),
              std::move(cpuset),
              std::move(limits_views),
              std::move(seccomp),
              std::move(skeleton),
              std::move(init)};
}

Result<void> serve(const Arguments& arguments) {
  TRY(take_neutral_state());
  TRY(reserve_launch_descriptors());
  TRY_ASSIGN(host, prepare(arguments));
  TRY(try_host(host));
  const std::string mounts = host.state.mounts();
  // The last to go, after the helpers, which are in it.
  const std::shared_ptr<Cpuset> cpuset = host.cpuset;
  TRY_ASSIGN(sweeper, start_helper("dsec-sweeper", sweep_until_closed));
  TRY_ASSIGN(disk_watch, start_helper("dsec-disk-watch", watch_disks_until_closed));
  Result<void> served;
  {
    Server server(std::move(host), Fd(kNode), std::move(sweeper), std::move(disk_watch));
    served = server.run();
  }
  // The helpers end with their sockets: who waits for this process shall find none of them.
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
  return served;
}

}  // namespace
}  // namespace dsec

int main(int count, char** values) {
  if (count != 5) {
    std::fprintf(stderr, "usage: dsec-launcher STATE_DIRECTORY UID_BASE CGROUP_PREFIX INIT (started by native/index.ts)\n");
    return 2;
  }
  ::fcntl(dsec::kNode, F_SETFD, FD_CLOEXEC);
  const dsec::Arguments arguments{values[1], static_cast<uint32_t>(std::strtoul(values[2], nullptr, 10)), values[3],
                                  values[4]};
  dsec::Result<void> served = dsec::serve(arguments);
  if (served) return 0;
  const dsec::Error& error = served.error();
  (void)dsec::send_message(dsec::kNode, {{"event", "failed"}, {"code", error.code}, {"message", error.text()}});
  return 1;
}
