#include "launcher/limits_view.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <numeric>

#include "base/files.h"
#include "base/remove_tree.h"
#include "launcher/processors.h"

namespace dsec {
namespace {

constexpr size_t kKept = 256;

Result<PlacedMount> place(int directory, const std::string& source, std::string target) {
  TRY_ASSIGN(mount, clone_mount(directory, source));
  constexpr uint64_t kGuard = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  TRY(set_mount_attributes(mount.get(), "", {.set = kGuard}));
  return PlacedMount{std::move(mount), std::move(target)};
}

}  // namespace

Result<LimitsViews> LimitsViews::open(const std::string& folder, std::vector<Hierarchy> hierarchies,
                                      std::shared_ptr<Cpuset> cpuset) {
  TRY(make_directory(folder, 0700));
  if (::mount("tmpfs", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755") != 0) {
    return failed("mount tmpfs", folder);
  }
  LimitsViews views;
  views.folder_ = folder;
  views.hierarchies_ = std::move(hierarchies);
  views.cpuset_ = std::move(cpuset);
  TRY_ASSIGN(meminfo, read_file(AT_FDCWD, "/proc/meminfo"));
  TRY_ASSIGN(cpuinfo, read_file(AT_FDCWD, "/proc/cpuinfo"));
  TRY_ASSIGN(stat, read_file(AT_FDCWD, "/proc/stat"));
  views.host_ = {std::move(meminfo), std::move(cpuinfo), std::move(stat)};
  return views;
}

Result<std::vector<PlacedMount>> LimitsViews::make(int64_t memory_bytes, const std::vector<unsigned>& processors,
                                                   const Cgroup& cgroup) {
  TRY_ASSIGN(memory, kept("memory " + std::to_string(memory_bytes), [&](const std::string& folder) {
               return make_file(folder + "/meminfo", meminfo_within(host_, memory_bytes), 0444);
             }));
  TRY_ASSIGN(cpu, kept("processors " + processor_list(processors),
                       [&](const std::string& folder) { return fill_processors(folder, processors); }));
  std::vector<PlacedMount> mounts;
  for (const auto& [source, target] : {std::pair{memory + "/meminfo", "proc/meminfo"}, std::pair{cpu + "/cpuinfo", "proc/cpuinfo"},
                                       std::pair{cpu + "/stat", "proc/stat"}, std::pair{cpu + "/sys", "sys"}}) {
    TRY_ASSIGN(placed, place(AT_FDCWD, source, target));
    mounts.push_back(std::move(placed));
  }
  for (const auto& [directory, target] : cgroup.places()) {
    TRY_ASSIGN(placed, place(directory, "", "sys/fs/cgroup" + target));
    mounts.push_back(std::move(placed));
  }
  if (cpuset_) {
    TRY_ASSIGN(placed, place(cpuset_->directory(), "", "sys/fs/cgroup/cpuset"));
    mounts.push_back(std::move(placed));
  }
  return mounts;
}

Result<std::string> LimitsViews::kept(const std::string& key, const std::function<Result<void>(const std::string&)>& fill) {
  if (auto found = kept_.find(key); found != kept_.end()) return found->second;
  if (kept_.size() >= kKept) {
    for (const auto& [other, folder] : kept_) TRY(remove_tree(AT_FDCWD, folder));
    kept_.clear();
  }
  const std::string folder = folder_ + "/" + std::to_string(next_++);
  TRY(make_directory(folder, 0755));
  TRY(fill(folder));
  return kept_.emplace(key, folder).first->second;
}

Result<void> LimitsViews::fill_processors(const std::string& folder, const std::vector<unsigned>& processors) const {
  TRY(make_file(folder + "/cpuinfo", cpuinfo_of(host_, processors), 0444));
  TRY(make_file(folder + "/stat", stat_of(host_, processors), 0444));
  const std::string cpu = folder + "/sys/devices/system/cpu", cgroup = folder + "/sys/fs/cgroup";
  for (const char* path : {"/sys", "/sys/devices", "/sys/devices/system", "/sys/devices/system/cpu", "/sys/fs", "/sys/fs/cgroup"}) {
    TRY(make_directory(folder + path, 0755));
  }
  TRY(make_file(cpu + "/online", processor_list(processors) + "\n", 0444));
  TRY(make_file(cpu + "/present", processor_list(processors) + "\n", 0444));
  // Tables by processor number (of an allocator, of restartable sequences) are as long as this says; a processor whose
  // number lies past their end would have its program write past it.
  std::vector<unsigned> possible(processors.back() + 1);
  std::iota(possible.begin(), possible.end(), 0);
  TRY(make_file(cpu + "/possible", processor_list(possible) + "\n", 0444));
  for (unsigned number : possible) TRY(make_directory(cpu + "/cpu" + std::to_string(number), 0755));
  if (cpuset_) TRY(make_directory(cgroup + "/cpuset", 0755));
  for (const Hierarchy& hierarchy : hierarchies_) {
    TRY(make_directory(cgroup + hierarchy.place, 0755));
    if (hierarchy.place.empty() || hierarchy.controllers.size() == 1) continue;
    for (const std::string& controller : hierarchy.controllers) {
      const std::string link = cgroup + "/" + controller;
      if (::symlink(hierarchy.place.c_str() + 1, link.c_str()) != 0) return failed("symlink", link);
    }
  }
  return {};
}

}  // namespace dsec
