#include "launcher/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/files.h"

namespace dsec {
namespace {

constexpr const char* kRequired[] = {"cpu", "memory", "pids"};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// The cgroup mounts of this process, from proc_pid_mountinfo(5).
struct MountedCgroup {
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
    if (after[0] == "cgroup") mounts.push_back({before[4], false, split(after[2], ',')});
    if (after[0] == "cgroup2") mounts.push_back({before[4], true, {}});
  }
  return mounts;
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// v2, where it holds every controller that is needed: they are then enabled for the groups below the root.
Result<std::vector<Hierarchy>> v2_hierarchy(const std::vector<MountedCgroup>& mounts) {
  for (const MountedCgroup& mount : mounts) {
    if (!mount.is_v2) continue;
    TRY_ASSIGN(available, read_file(AT_FDCWD, mount.path + "/cgroup.controllers"));
    while (!available.empty() && available.back() == '\n') available.pop_back();
    Hierarchy hierarchy{mount.path, split(available, ' ')};
    if (!std::all_of(std::begin(kRequired), std::end(kRequired), [&](const char* c) { return hierarchy.has(c); })) continue;
    for (const char* controller : {"cpu", "memory", "pids", "io"}) {
      if (!hierarchy.has(controller)) continue;
      Result<void> enabled = write_file(AT_FDCWD, mount.path + "/cgroup.subtree_control", std::string("+") + controller);
      if (enabled) continue;
      Error error = std::move(enabled).error().with_code("HOST_UNSUITABLE");
      if (error.number == EBUSY) error.object += " (processes sit in this cgroup: run in a delegated one, Delegate=yes)";
      return error;
    }
    return std::vector<Hierarchy>{std::move(hierarchy)};
  }
  return std::vector<Hierarchy>{};
}

std::vector<Hierarchy> v1_hierarchies(const std::vector<MountedCgroup>& mounts) {
  std::vector<Hierarchy> hierarchies;
  std::vector<std::string> seen;
  for (const MountedCgroup& mount : mounts) {
    if (mount.is_v2) continue;
    Hierarchy hierarchy{mount.path, {}};
    for (const char* controller : {"cpu", "cpuacct", "memory", "pids", "blkio"}) {
      // The same hierarchy may be mounted twice.
      if (!contains(mount.options, controller) || contains(seen, controller)) continue;
      hierarchy.controllers.push_back(controller);
      seen.push_back(controller);
    }
    if (!hierarchy.controllers.empty()) hierarchies.push_back(std::move(hierarchy));
  }
  return hierarchies;
}

std::vector<std::string> child_folders(const std::string& path) {
  std::vector<std::string> names;
  DIR* stream = ::opendir(path.c_str());
  if (!stream) return names;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") names.push_back(name);
  }
  ::closedir(stream);
  return names;
}

void kill_members(const std::string& path) {
  for (const std::string& name : child_folders(path)) kill_members(path + "/" + name);
  Result<std::string> members = read_file(AT_FDCWD, path + "/cgroup.procs");
  if (!members) return;
  for (const std::string& line : split(*members, '\n')) {
    int pid = std::atoi(line.c_str());
    if (pid > 1) ::kill(pid, SIGKILL);
  }
}

}  // namespace

bool Hierarchy::has(const std::string& controller) const { return contains(controllers, controller); }

Result<Cgroups> Cgroups::detect(std::string prefix) {
  Cgroups cgroups;
  cgroups.prefix_ = std::move(prefix);
  TRY_ASSIGN(mounts, mounted_cgroups());
  TRY_ASSIGN(found, v2_hierarchy(mounts));
  cgroups.interface_ = cgroup_v2();
  if (found.empty()) {
    found = v1_hierarchies(mounts);
    cgroups.interface_ = cgroup_v1();
  }
  for (const char* controller : kRequired) {
    if (std::any_of(found.begin(), found.end(), [&](const Hierarchy& h) { return h.has(controller); })) continue;
    return Error{"cgroup controller", std::string(controller) + " is in no mounted hierarchy; mount or delegate it", 0,
                 "HOST_UNSUITABLE"};
  }
  cgroups.hierarchies_ = std::make_shared<std::vector<Hierarchy>>(std::move(found));
  return cgroups;
}

Result<Cgroup> Cgroups::create(const std::string& id, const Limits& limits, const std::string& device) const {
  Cgroup group;
  Result<void> made = [&]() -> Result<void> {
    for (const Hierarchy& hierarchy : *hierarchies_) {
      const std::string path = hierarchy.path + "/" + prefix_ + id;
      if (::mkdir(path.c_str(), 0755) != 0) return failed("mkdir", path);
      group.folders_.push_back({&hierarchy, path, Fd(), Fd()});
      TRY_ASSIGN(directory, open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY));
      TRY_ASSIGN(attach, open_at(directory.get(), interface_->attach_file(), O_WRONLY));
      group.folders_.back().directory = std::move(directory);
      group.folders_.back().attach = std::move(attach);
    }
    return group.apply(interface_->settings(limits, device));
  }();
  if (made) return group;
  for (const std::string& path : group.paths()) ::rmdir(path.c_str());
  return std::move(made).error();
}

Result<void> Cgroups::remove_leftovers() const {
  std::vector<std::string> leftovers;
  for (const Hierarchy& hierarchy : *hierarchies_) {
    for (const std::string& name : child_folders(hierarchy.path)) {
      if (name.starts_with(prefix_)) leftovers.push_back(hierarchy.path + "/" + name);
    }
  }
  for (const std::string& path : leftovers) kill_members(path);
  for (const std::string& path : leftovers) TRY(remove_cgroup(path));
  return {};
}

Result<Cgroup> Cgroup::open(const std::vector<std::pair<const Hierarchy*, std::string>>& folders) {
  Cgroup group;
  for (const auto& [hierarchy, path] : folders) {
    TRY_ASSIGN(directory, open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY));
    group.folders_.push_back({hierarchy, path, std::move(directory), Fd()});
  }
  return group;
}

Result<void> Cgroup::attach_self() const {
  for (const Folder& folder : folders_) {
    if (::write(folder.attach.get(), "0", 1) != 1) return failed("write", folder.path + " 0");
  }
  return {};
}

void Cgroup::seal() {
  for (Folder& folder : folders_) folder.attach.reset();
}

Result<void> Cgroup::apply(const std::vector<Setting>& settings) const {
  for (const Setting& setting : settings) {
    auto folder = std::find_if(folders_.begin(), folders_.end(),
                               [&](const Folder& f) { return f.hierarchy->has(setting.controller); });
    if (folder == folders_.end()) {
      return Error{"cgroup controller", setting.controller + " is in no mounted hierarchy", 0, "HOST_UNSUITABLE"};
    }
    Result<void> written = write_file(folder->directory.get(), setting.file, setting.value);
    if (written || (setting.is_optional && written.error().number == ENOENT)) continue;
    return written;
  }
  return {};
}

std::optional<std::string> Cgroup::read(const std::string& controller, const std::string& file) const {
  for (const Folder& folder : folders_) {
    if (!folder.hierarchy->has(controller)) continue;
    Result<std::string> content = read_file(folder.directory.get(), file);
    if (content) return *std::move(content);
  }
  return std::nullopt;
}

std::vector<std::string> Cgroup::paths() const {
  std::vector<std::string> paths;
  for (const Folder& folder : folders_) paths.push_back(folder.path);
  return paths;
}

Result<void> remove_cgroup(const std::string& path) {
  constexpr int kAttempts = 2000;
  constexpr useconds_t kPauseUs = 1000;
  for (int attempt = 0; attempt < kAttempts; attempt++) {
    if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return {};
    if (errno != EBUSY && errno != ENOTEMPTY) return failed("rmdir", path);
    for (const std::string& name : child_folders(path)) TRY(remove_cgroup(path + "/" + name));
    kill_members(path);
    ::usleep(kPauseUs);
  }
  return Error{"rmdir", path, EBUSY};
}

std::optional<int64_t> keyed_value(const std::string& content, const std::string& name) {
  std::stringstream lines(content);
  std::string key;
  int64_t value;
  while (lines >> key >> value) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> limit_value(const std::string& content) {
  int64_t value = 0;
  auto [end, code] = std::from_chars(content.data(), content.data() + content.size(), value);
  if (code != std::errc() || value < 0) return std::nullopt;
  constexpr int64_t kUnlimitedV1 = INT64_MAX - 65535;
  if (value >= kUnlimitedV1) return std::nullopt;
  return value;
}

}  // namespace dsec
