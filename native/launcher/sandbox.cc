#include "launcher/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "init/report.h"
#include "launcher/child.h"
#include "launcher/in_root.h"
#include "launcher/listeners.h"
#include "launcher/mounts.h"
#include "launcher/observation.h"
#include "launcher/overlay.h"

namespace dsec {
namespace {

using Json = nlohmann::json;

struct Pipe {
  Fd read_end, write_end;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed("pipe2");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// Through a read-only copy of its mount, so that opening /proc/self/fd/0 anew cannot write to the host's file.
Result<Fd> open_stdin(const std::string& path) {
  if (path.empty()) return open_at(AT_FDCWD, "/dev/null", O_RDONLY);
  TRY_ASSIGN(mount, clone_mount(AT_FDCWD, path));
  TRY(set_mount_attributes(mount.get(), "", {.set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV}));
  struct stat status{};
  if (::fstat(mount.get(), &status) != 0) return failed("fstat", path);
  if (!S_ISREG(status.st_mode)) return Error{"stdinPath", path + " is not a regular file", 0, "INVALID_REQUEST"};
  return open_at(AT_FDCWD, "/proc/self/fd/" + std::to_string(mount.get()), O_RDONLY);
}

Result<ChildBind> prepare_bind(int root, const Bind& bind, int user_namespace) {
  TRY_ASSIGN(mount, clone_read_only(bind.source, user_namespace));
  struct stat status{};
  if (::fstat(mount.get(), &status) != 0) return failed("fstat", bind.source);
  Result<Fd> target = S_ISDIR(status.st_mode) ? make_directories_in_root(root, bind.target, 0755)
                                              : make_file_in_root(root, bind.target);
  if (!target) return std::move(target).error();
  return ChildBind{std::move(mount), *std::move(target), bind.target};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  return pointers;
}

Result<void> place(const Fd& descriptor, int number) {
  if (::dup3(descriptor.get(), number, O_CLOEXEC) < 0) return failed("dup3", std::to_string(number));
  return {};
}

// The reserved numbers must not keep a stream open once the child has it.
void clear_launch_descriptors() {
  static const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  using namespace launch_descriptor;
  for (int number : {kStdin, kStdout, kStderr, kControl}) ::dup3(null, number, O_CLOEXEC);
}

}  // namespace

int64_t now_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1000;
}

Result<Sandbox> Sandbox::make(Host& host, const Plan& plan) {
  Sandbox sandbox;
  sandbox.id_ = plan.id;
  // For the message of a failed execve, which goes in one datagram.
  sandbox.command_ = plan.argv[0].substr(0, 4096);
  sandbox.interface_ = &host.cgroups.interface();
  sandbox.slots_ = &host.slots;
  sandbox.processors_ = &host.processors;
  sandbox.timeout_ms_ = plan.timeout_ms;
  sandbox.disk_bytes_ = plan.limits.disk_bytes;
  sandbox.folder_ = host.state.sandboxes() + "/" + plan.id;

  const Image* image = &host.images.host();
  if (!plan.erofs_path.empty()) {
    TRY_ASSIGN(mounted, host.images.erofs(plan.erofs_path));
    image = mounted;
    if (auto evicted = host.images.evict()) {
      host.blanks.forget(host.slots, *evicted);
      host.slots.forget(*evicted);
    }
  }
  std::string disk;
  if (plan.limits.disk_iops > 0) {
    TRY_ASSIGN(device, host.state.disk());
    disk = device;
  }
  TRY_ASSIGN(blank, host.blanks.take(host.slots, *image));
  Slot* const slot = blank.slot;
  Result<void> made = [&]() -> Result<void> {
    if (::rename(blank.folder.c_str(), sandbox.folder_.c_str()) != 0) return failed("rename", sandbox.folder_);
    blank.folder = sandbox.folder_;
    sandbox.root_ = std::move(blank.root);
    TRY_ASSIGN(cgroup, host.cgroups.create(plan.id, plan.limits, disk));
    sandbox.cgroup_ = std::move(cgroup);
    TRY_ASSIGN(share, host.processors.take(plan.limits.cpu_millis));
    sandbox.share_ = std::move(share);
    TRY_ASSIGN(network, host.networks.take());
    TRY_ASSIGN(listeners, listen_on_loopback(network.get(), plan.loopback_ports));
    sandbox.listeners_ = std::move(listeners);
    TRY_ASSIGN(input, open_stdin(plan.stdin_path));
    TRY_ASSIGN(output, make_pipe());
    TRY_ASSIGN(errors, make_pipe());

    ChildPlan child;
    TRY_ASSIGN(view, host.limits_views.make(plan.limits.memory_bytes, sandbox.share_.numbers, sandbox.cgroup_));
    child.limits_view = std::move(view);
    std::vector<std::string> arguments = {"dsec-init"};
    Fd working_directory, host_usr;
    {
      FileOwner owner(slot->first_id);
      if (image->has_host_usr) {
        TRY_ASSIGN(usr, clone_read_only("/usr", slot->user_namespace.get()));
        host_usr = std::move(usr);
      }
      for (const Bind& bind : plan.mounts) {
        TRY_ASSIGN(prepared, prepare_bind(sandbox.root_.get(), bind, slot->user_namespace.get()));
        child.binds.push_back(std::move(prepared));
      }
      TRY_ASSIGN(folder, make_directories_in_root(sandbox.root_.get(), plan.working_directory, 0755));
      working_directory = std::move(folder);
    }
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return failed("socketpair", "control");
    sandbox.control_ = Fd(pair[0]);
    Fd control(pair[1]);

    arguments.insert(arguments.end(), plan.argv.begin(), plan.argv.end());
    child.cgroup = &sandbox.cgroup_;
    child.seccomp = &host.seccomp;
    child.network_namespace = network.get();
    child.user_namespace = slot->user_namespace.get();
    child.skeleton_namespace = host.skeleton_namespace.get();
    child.root = sandbox.root_.get();
    child.working_directory = working_directory.get();
    child.host_usr = host_usr.get();
    child.hostname = plan.hostname;
    child.arguments = pointers(arguments);
    child.arguments.push_back(nullptr);
    child.environment = pointers(plan.environment);
    child.environment.push_back(nullptr);
    TRY(place(input, launch_descriptor::kStdin));
    TRY(place(output.write_end, launch_descriptor::kStdout));
    TRY(place(errors.write_end, launch_descriptor::kStderr));
    TRY(place(control, launch_descriptor::kControl));
    TRY(place(host.init, launch_descriptor::kInit));
    Result<Cloned> started = start_child(child);
    clear_launch_descriptors();
    if (!started) return std::move(started).error();
    sandbox.cgroup_.seal();
    sandbox.pid_ = started->pid;
    sandbox.pidfd_ = std::move(started->pidfd);
    sandbox.stdout_ = std::move(output.read_end);
    sandbox.stderr_ = std::move(errors.read_end);

    TRY(sandbox.cgroup_.apply(sandbox.interface_->cpu_settings(plan.limits.cpu_millis)));
    TRY_ASSIGN(observation, observe(sandbox.pid_, *sandbox.interface_, sandbox.cgroup_));
    sandbox.observation_ = std::move(observation);
    // Last: by now init sleeps, and the kernel moves what sleeps at once; for what runs it would have to be waited.
    TRY(run_on(sandbox.pid_, sandbox.share_.numbers));
    return {};
  }();
  sandbox.slot_ = slot;
  if (made) return sandbox;

  if (sandbox.pidfd_) {
    sandbox.kill(KillCause::kKilled);
    ::waitpid(sandbox.pid_, nullptr, 0);
  }
  sandbox.root_.reset();
  for (const std::string& path : sandbox.cgroup_.paths()) (void)remove_cgroup(path);
  host.processors.give_back(sandbox.share_);
  host.blanks.discard(host.slots, std::move(blank));
  return std::move(made).error();
}

void Sandbox::go() {
  started_us_ = now_us();
  deadline_us_ = started_us_ + timeout_ms_ * 1000;
  // An init that is dead already (its memory limit may be too small for it) shows at its pidfd.
  (void)!::send(control_.get(), "g", 1, MSG_NOSIGNAL);
}

void Sandbox::kill(KillCause cause) {
  if (state_ != State::kRunning) return;
  if (cause_ == KillCause::kNone) cause_ = cause;
  // Init's death takes its whole pid namespace with it: sessions, double forks and all.
  ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

Json Sandbox::end() {
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  state_ = State::kEnded;
  const int64_t run_us = now_us() - started_us_;
  const bool oom_killed = interface_->oom_kills(cgroup_) > 0;
  const Usage usage = interface_->usage(cgroup_);

  Json end = {{"exitCode", nullptr}, {"signal", nullptr}, {"message", nullptr}, {"runUs", run_us}};
  end["usage"] = {{"cpuUs", usage.cpu_us}, {"memoryPeakBytes", usage.memory_peak_bytes}};
  InitReport report{};
  if (::recv(control_.get(), &report, sizeof report, MSG_DONTWAIT) == sizeof report) {
    // The command's own end, told by init before it left; a kill of ours that raced with it came too late.
    if (report.exec_error != 0) {
      const bool lacks_interpreter = report.is_found != 0 && report.exec_error == ENOENT;
      end["reason"] = report.is_found != 0 ? "command_not_executable" : "command_not_found";
      end["message"] = "execve " + command_ + ": " +
                       (lacks_interpreter ? "its interpreter or loader is not there" : std::strerror(report.exec_error));
    } else if (WIFEXITED(report.wait_status)) {
      end["reason"] = "exited";
      end["exitCode"] = WEXITSTATUS(report.wait_status);
    } else {
      const int signal = WTERMSIG(report.wait_status);
      end["reason"] = signal == SIGKILL && oom_killed ? "oom_killed" : "signaled";
      end["signal"] = signal;
    }
  } else {
    end["signal"] = SIGKILL;
    switch (cause_) {
      case KillCause::kTimedOut: end["reason"] = "timed_out"; break;
      case KillCause::kKilled: end["reason"] = "killed"; break;
      case KillCause::kDiskFull: end["reason"] = "disk_full"; break;
      // Init itself fell, to the OOM killer or to somebody on the host.
      case KillCause::kNone: end["reason"] = oom_killed ? "oom_killed" : "signaled"; break;
    }
  }
  slots_->release(slot_);
  processors_->give_back(share_);
  control_.reset();
  pidfd_.reset();
  return end;
}

}  // namespace dsec
