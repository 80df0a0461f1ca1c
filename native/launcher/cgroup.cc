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
#include "launcher/cgroup_hierarchies.h"

namespace dsec {
namespace {

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

// Of the group and those below it. Version 2 does it in one stroke (cgroup.kill, Linux 5.14), which no fork outruns.
void kill_members(const std::string& path) {
  if (write_file(AT_FDCWD, path + "/cgroup.kill", "1")) return;
  for (const std::string& name : child_folders(path)) kill_members(path + "/" + name);
  Result<std::string> members = read_file(AT_FDCWD, path + "/cgroup.procs");
  if (!members) return;
  std::stringstream lines(*members);
  for (pid_t pid = 0; lines >> pid;) {
    if (pid > 1) ::kill(pid, SIGKILL);
  }
}

}  // namespace

Result<Cgroups> Cgroups::detect(std::string prefix) {
  TRY_ASSIGN(found, find_hierarchies());
  Cgroups cgroups;
  cgroups.prefix_ = std::move(prefix);
  cgroups.interface_ = std::move(found.interface);
  cgroups.hierarchies_ = std::make_shared<std::vector<Hierarchy>>(std::move(found.all));
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
      if (const char* file = interface_->attach_file()) {
        TRY_ASSIGN(attach, open_at(directory.get(), file, O_WRONLY));
        group.folders_.back().attach = std::move(attach);
      }
      group.folders_.back().directory = std::move(directory);
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

int Cgroup::birthplace() const {
  const Folder& first = folders_.front();
  return first.attach ? -1 : first.directory.get();
}

Result<void> Cgroup::attach_self() const {
  for (const Folder& folder : folders_) {
    if (folder.attach && ::write(folder.attach.get(), "0", 1) != 1) return failed("write", folder.path + " 0");
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

std::vector<std::pair<int, std::string>> Cgroup::places() const {
  std::vector<std::pair<int, std::string>> places;
  for (const Folder& folder : folders_) places.emplace_back(folder.directory.get(), folder.hierarchy->place);
  return places;
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
