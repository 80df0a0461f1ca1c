// The limits of a sandbox where programs look for them to size themselves: its cgroup, as the kernel keeps it, and files
// over those of proc(5) that would tell of the whole host. For programs only: what the host decides or attests it reads
// elsewhere. See docs/decisions/0018-limits-that-programs-see.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cgroup.h"
#include "launcher/cpuset.h"
#include "launcher/limits_text.h"
#include "launcher/mounts.h"

namespace dsec {

class LimitsViews {
 public:
  // Makes the folder and mounts a tmpfs on it.
  static Result<LimitsViews> open(const std::string& folder, std::vector<Hierarchy> hierarchies,
                                  std::shared_ptr<Cpuset> cpuset);

  // Detached read-only mounts, to be attached in their order once the sandbox's /proc is there.
  Result<std::vector<PlacedMount>> make(int64_t memory_bytes, const std::vector<unsigned>& processors,
                                        const Cgroup& cgroup);

 private:
  // The folder that `fill` has filled once for this key.
  Result<std::string> kept(const std::string& key, const std::function<Result<void>(const std::string&)>& fill);
  Result<void> fill_processors(const std::string& folder, const std::vector<unsigned>& processors) const;

  std::string folder_;
  std::vector<Hierarchy> hierarchies_;
  std::shared_ptr<Cpuset> cpuset_;  // shown beside each sandbox's own groups, or none
  HostTexts host_;
  // Sandboxes of the same limits share their files. Those that have them mounted keep them when they are dropped here.
  std::map<std::string, std::string> kept_;
  uint64_t next_ = 0;
};

}  // namespace dsec
