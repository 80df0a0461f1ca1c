// cgroups(7): the limits of a sandbox and the counters that tell what it used and how it died.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/plan.h"

namespace dsec {

// A hierarchy that limits are set in. v1 has one for each controller or group of them; v2 has one in all.
struct Hierarchy {
  std::string path;                      // where new groups are made, such as /sys/fs/cgroup/memory
  std::vector<std::string> controllers;  // "memory"; on v1 also "cpuacct"
  std::string place = "";                // below a sandbox's /sys/fs/cgroup: "/memory", "/cpu,cpuacct"; on v2 that itself

  bool has(const std::string& controller) const;
};

// A value for one interface file of one controller.
struct Setting {
  std::string controller;
  std::string file;
  std::string value;
  // Some kernels are built without the file (swap accounting); that it is absent is then no failure.
  bool is_optional = false;
};

struct EffectiveLimits {
  std::optional<int64_t> cpu_millis, memory_bytes, pids, disk_iops;
};

struct Usage {
  int64_t cpu_us = 0;
  int64_t memory_peak_bytes = 0;
};

// What differs between v1 and v2: names of files and the forms of their values. Pure, so that either can be tested on
// any host; the files are read through `Cgroup`.
class Cgroup;
class CgroupInterface {
 public:
  virtual ~CgroupInterface() = default;
  virtual const char* version() const = 0;
  // File that moves the writer itself by "0". On v1 `tasks`, which takes no host-wide lock for that. None on v2, whose
  // `cgroup.procs` does take one: there a process is born in its group.
  virtual const char* attach_file() const = 0;
  // Everything but the CPU quota. `device` is "major:minor" of the disk; empty when no IOPS are limited.
  virtual std::vector<Setting> settings(const Limits& limits, const std::string& device) const = 0;
  // Apart, and set last: a small quota would throttle the sandbox's own making, which the launcher waits for.
  virtual std::vector<Setting> cpu_settings(int64_t cpu_millis) const = 0;
  virtual EffectiveLimits limits(const Cgroup& group) const = 0;
  virtual Usage usage(const Cgroup& group) const = 0;
  // Processes of the group that the kernel's OOM killer ended.
  virtual int64_t oom_kills(const Cgroup& group) const = 0;
};

std::unique_ptr<CgroupInterface> cgroup_v1();
std::unique_ptr<CgroupInterface> cgroup_v2();

// One sandbox's group: a folder in each hierarchy.
class Cgroup {
 public:
  // Over folders that are there already.
  static Result<Cgroup> open(const std::vector<std::pair<const Hierarchy*, std::string>>& folders);
  // Descriptor of the group that the process is to be born in (see clone.h), or -1 where it moves in itself.
  int birthplace() const;
  // Moves the calling process in, where it was not born in it.
  Result<void> attach_self() const;
  // No more processes will be moved in: gives the descriptors for it back.
  void seal();
  Result<void> apply(const std::vector<Setting>& settings) const;
  // The value, or nothing where the controller or file is missing.
  std::optional<std::string> read(const std::string& controller, const std::string& file) const;
  // The group's own folder in each hierarchy, and the hierarchy's place.
  std::vector<std::pair<int, std::string>> places() const;
  // Folders to remove when every process is dead.
  std::vector<std::string> paths() const;

 private:
  friend class Cgroups;
  struct Folder {
    const Hierarchy* hierarchy;
    std::string path;
    Fd directory;
    Fd attach;  // open for the launch only
  };
  std::vector<Folder> folders_;
};

// The host's cgroups as far as this launcher is concerned.
class Cgroups {
 public:
  // HOST_UNSUITABLE names the controller that neither version offers. Groups are named `<prefix><id>`.
  static Result<Cgroups> detect(std::string prefix);

  const CgroupInterface& interface() const { return *interface_; }
  const std::vector<Hierarchy>& hierarchies() const { return *hierarchies_; }
  // On failure nothing is left behind.
  Result<Cgroup> create(const std::string& id, const Limits& limits, const std::string& device) const;
  // Kills the processes of every group with our prefix and removes the groups: an earlier launcher left them.
  Result<void> remove_leftovers() const;

 private:
  std::string prefix_;
  std::unique_ptr<CgroupInterface> interface_;
  std::shared_ptr<std::vector<Hierarchy>> hierarchies_;
};

// Removes a group with the groups below it, bottom-up, once its processes are gone; waits a little for the last of
// them. One that is not there is a success.
Result<void> remove_cgroup(const std::string& path);

// Files of the form "name value" in lines, such as memory.events: the value of a name.
std::optional<int64_t> keyed_value(const std::string& content, const std::string& name);
// A number, or nothing for "max", -1, and v1's word for no limit (the largest multiple of the page size).
std::optional<int64_t> limit_value(const std::string& content);

}  // namespace dsec
