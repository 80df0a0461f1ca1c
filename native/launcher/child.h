// What the process that becomes pid 1 of a sandbox does between clone3(2) and execveat(2), in the order the kernel needs.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/cgroup.h"
#include "launcher/clone.h"
#include "launcher/mounts.h"
#include "launcher/seccomp.h"

namespace dsec {

// Descriptors 10 to 14 are set aside for a launch. The child shares the launcher's table until its last step, where one
// close_range(2) gives it a table of its own with no more than these: copying the whole table would cost milliseconds
// with a thousand sandboxes alive.
namespace launch_descriptor {
constexpr int kStdin = 10, kStdout = 11, kStderr = 12, kControl = 13, kInit = 14, kEnd = 15;
}
// Fills them with /dev/null, before anything else is opened.
Result<void> reserve_launch_descriptors();

// Those that the launcher ignores. An ignored signal stays ignored over execve(2), so the child takes them back.
constexpr int kStopSignals[] = {SIGHUP, SIGINT, SIGTERM};

struct ChildBind {
  Fd mount;    // detached, read-only
  Fd target;   // O_PATH within the sandbox's root
  std::string path;
};

struct ChildPlan {
  const Cgroup* cgroup;
  const SeccompFilter* seccomp;
  int network_namespace;
  int user_namespace;
  int skeleton_namespace;
  int root;  // the detached overlay mount
  int working_directory;
  int host_usr = -1;  // a detached read-only /usr, or none
  std::vector<PlacedMount> limits_view;
  std::vector<ChildBind> binds;
  std::string hostname;
  std::vector<char*> arguments;    // ends with nullptr; the first is init's own name
  std::vector<char*> environment;  // ends with nullptr
};

// Starts the child and returns once it executes init, which then waits for a byte on its control socket.
Result<Cloned> start_child(const ChildPlan& plan);

}  // namespace dsec
