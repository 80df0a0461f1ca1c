#include "launcher/trial.h"

#include <fcntl.h>

#include "base/remove_tree.h"

namespace dsec {

Result<void> try_host(Host& host) {
  Plan plan;
  plan.id = "trial";
  plan.argv = {"true"};
  // Not in the image, so that it has to be made: an upper layer whose ids are not mapped is quietly read-only.
  plan.working_directory = "/trial";
  plan.hostname = "trial";
  plan.limits = {.cpu_millis = 1000, .memory_bytes = 64 << 20, .pids = 16, .disk_iops = 0, .disk_bytes = 0};
  Result<Sandbox> made = Sandbox::make(host, plan);
  if (!made) {
    Error error = std::move(made).error().with_code("HOST_UNSUITABLE");
    error.object += " (no sandbox can be made here: Linux 5.19 or later is needed; dsec doctor tells more)";
    return error;
  }
  made->kill(KillCause::kKilled);
  (void)made->end();
  made->take_root().reset();
  for (const std::string& path : made->cgroup_paths()) TRY(remove_cgroup(path));
  return remove_tree(AT_FDCWD, made->folder());
}

}  // namespace dsec
