#include "launcher/cgroup_hierarchies.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/files.h"

namespace dsec {
namespace {

constexpr const char* kRequired[] = {"cpu", "memory", "pids"};
constexpr const char* kUsed[] = {"cpu", "memory", "pids", "io"};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

const char* first_missing(const std::vector<Hierarchy>& hierarchies) {
  for (const char* controller : kRequired) {
    if (std::none_of(hierarchies.begin(), hierarchies.end(), [&](const Hierarchy& h) { return h.has(controller); })) {
      return controller;
    }
  }
  return nullptr;
}

// The cgroup mounts of this process, from proc_pid_mountinfo(5).
struct MountedCgroup {
  std::string root;  // what of the hierarchy is mounted: "/" for all that this cgroup namespace has
  std::string path;
  bool is_v2;
  std::vector<std::string> options;
};

Result<std::vector<MountedCgroup>> mounted_cgroups() {
  TRY_ASSIGN(content, read_file(AT_FDCWD, "/proc/self/mountinfo"));
  std::vector<MountedCgroup> mounts;
  for (const std::string& line : split(content, '\n')) {
    size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = split(line.substr(0, dash), ' ');
    const std::vector<std::string> after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    if (after[0] == "cgroup") mounts.push_back({before[3], before[4], false, split(after[2], ',')});
    if (after[0] == "cgroup2") mounts.push_back({before[3], before[4], true, {}});
  }
  return mounts;
}

Result<Hierarchy> v2_group(const std::string& path) {
  TRY_ASSIGN(available, read_file(AT_FDCWD, path + "/cgroup.controllers"));
  while (!available.empty() && available.back() == '\n') available.pop_back();
  return Hierarchy{path, split(available, ' ')};
}

// systemd.resource-control(5) marks what it hands over; the top of a container's own hierarchy carries the same mark.
bool is_delegated(const std::string& path) {
  for (const char* mark : {"trusted.delegate", "user.delegate"}) {
    char value = 0;
    if (::getxattr(path.c_str(), mark, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

// The nearest group above this process that was delegated with every controller that is needed, else the top.
Result<Hierarchy> v2_base(const MountedCgroup& mount) {
  TRY_ASSIGN(membership, read_file(AT_FDCWD, "/proc/self/cgroup"));
  const std::string start = "0::";
  for (const std::string& line : split(membership, '\n')) {
    if (mount.root != "/" || !line.starts_with(start)) continue;
    for (std::string own = line.substr(start.size()); own.size() > 1; own.erase(own.rfind('/'))) {
      if (!is_delegated(mount.path + own)) continue;
      TRY_ASSIGN(group, v2_group(mount.path + own));
      if (!first_missing({group})) return group;
    }
  }
  return v2_group(mount.path);
}

// Groups that have controllers to give may hold no processes; only the top of the whole host is free of that rule.
Result<void> vacate(const std::string& path) {
  if (::access((path + "/cgroup.type").c_str(), F_OK) != 0) return {};
  // A process that is started meanwhile is found at the next look.
  for (int attempt = 0; attempt < 10; attempt++) {
    TRY_ASSIGN(members, read_file(AT_FDCWD, path + "/cgroup.procs"));
    if (members.empty()) return {};
    const std::string supervisor = path + "/dsec-supervisor";
    TRY(make_directory(supervisor, 0755));
    for (const std::string& pid : split(members, '\n')) {
      Result<void> moved = write_file(AT_FDCWD, supervisor + "/cgroup.procs", pid);
      if (!moved && moved.error().number != ESRCH) return moved;
    }
  }
  return {};
}

// Empty where v2 is not mounted or lacks a controller that is needed.
Result<std::vector<Hierarchy>> v2_hierarchy(const std::vector<MountedCgroup>& mounts) {
  for (const MountedCgroup& mount : mounts) {
    if (!mount.is_v2) continue;
    TRY_ASSIGN(base, v2_base(mount));
    if (first_missing({base})) continue;
    TRY(vacate(base.path));
    for (const char* controller : kUsed) {
      if (!base.has(controller)) continue;
      TRY(write_file(AT_FDCWD, base.path + "/cgroup.subtree_control", std::string("+") + controller));
    }
    return std::vector<Hierarchy>{std::move(base)};
  }
  return std::vector<Hierarchy>{};
}

std::vector<Hierarchy> v1_hierarchies(const std::vector<MountedCgroup>& mounts) {
  std::vector<Hierarchy> hierarchies;
  std::vector<std::string> seen;
  for (const MountedCgroup& mount : mounts) {
    if (mount.is_v2) continue;
    Hierarchy hierarchy{mount.path, {}, ""};
    for (const char* controller : {"cpu", "cpuacct", "memory", "pids", "blkio"}) {
      // The same hierarchy may be mounted twice.
      if (!contains(mount.options, controller) || contains(seen, controller)) continue;
      hierarchy.controllers.push_back(controller);
      hierarchy.place += (hierarchy.place.empty() ? "/" : ",") + std::string(controller);
      seen.push_back(controller);
    }
    if (!hierarchy.controllers.empty()) hierarchies.push_back(std::move(hierarchy));
  }
  return hierarchies;
}

}  // namespace

bool Hierarchy::has(const std::string& controller) const { return contains(controllers, controller); }

Result<Hierarchies> find_hierarchies() {
  TRY_ASSIGN(mounts, mounted_cgroups());
  Result<std::vector<Hierarchy>> v2 = v2_hierarchy(mounts);
  if (!v2) {
    Error error = std::move(v2).error().with_code("HOST_UNSUITABLE");
    error.object += " (run where the group is ours to use: Delegate=yes in the unit)";
    return error;
  }
  if (!v2->empty()) return Hierarchies{cgroup_v2(), *std::move(v2)};
  std::vector<Hierarchy> v1 = v1_hierarchies(mounts);
  if (const char* controller = first_missing(v1)) {
    return Error{"cgroup controller", std::string(controller) + " is in no mounted hierarchy; mount or delegate it", 0,
                 "HOST_UNSUITABLE"};
  }
  return Hierarchies{cgroup_v1(), std::move(v1)};
}

}  // namespace dsec
