// One sandbox from its plan to its end.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/blanks.h"
#include "launcher/cgroup.h"
#include "launcher/images.h"
#include "launcher/limits_view.h"
#include "launcher/namespaces.h"
#include "launcher/plan.h"
#include "launcher/processors.h"
#include "launcher/seccomp.h"
#include "launcher/slots.h"
#include "launcher/state_directory.h"

namespace dsec {

// What every launch draws from.
struct Host {
  StateDirectory state;
  Cgroups cgroups;
  Images images;
  Slots slots;
  Blanks blanks;
  NetworkNamespaces networks;
  Processors processors;
  std::shared_ptr<Cpuset> cpuset;
  LimitsViews limits_views;
  SeccompFilter seccomp;
  Fd skeleton_namespace;
  Fd init;
};

// Why the launcher itself killed a sandbox; the first cause stays.
enum class KillCause { kNone, kTimedOut, kKilled, kDiskFull };

class Sandbox {
 public:
  // Everything up to the moment before the command runs: init waits, the observation is taken. On failure nothing of
  // the sandbox lives, and `leftovers` says what is to be swept.
  static Result<Sandbox> make(Host& host, const Plan& plan);

  // Lets the command run.
  void go();
  void kill(KillCause cause);
  // Call when the pidfd is readable: init is dead, and with it every process of its pid namespace.
  nlohmann::json end();

  const std::string& id() const { return id_; }
  int pidfd() const { return pidfd_.get(); }
  pid_t pid() const { return pid_; }
  int64_t deadline_us() const { return deadline_us_; }
  int64_t disk_bytes() const { return disk_bytes_; }
  bool is_alive() const { return state_ == State::kRunning; }
  const nlohmann::json& observation() const { return observation_; }
  std::string folder() const { return folder_; }
  std::vector<std::string> cgroup_paths() const { return cgroup_.paths(); }
  // To be handed to the client, each once.
  Fd take_stdout() { return std::move(stdout_); }
  Fd take_stderr() { return std::move(stderr_); }
  Fd take_root() { return std::move(root_); }
  // In the order of the plan's ports.
  std::vector<Fd> take_listeners() { return std::move(listeners_); }

 private:
  enum class State { kRunning, kEnded };

  const CgroupInterface* interface_ = nullptr;
  Slots* slots_ = nullptr;
  Processors* processors_ = nullptr;
  std::string id_;
  std::string folder_;
  std::string command_;
  Slot* slot_ = nullptr;
  Cgroup cgroup_;
  ProcessorShare share_;
  Fd stdout_, stderr_, root_, control_, pidfd_;
  std::vector<Fd> listeners_;
  pid_t pid_ = -1;
  nlohmann::json observation_;
  int64_t timeout_ms_ = 0;
  int64_t disk_bytes_ = 0;
  int64_t started_us_ = 0;
  int64_t deadline_us_ = 0;
  State state_ = State::kRunning;
  KillCause cause_ = KillCause::kNone;
};

// CLOCK_MONOTONIC in microseconds.
int64_t now_us();

}  // namespace dsec
