#include "launcher/disk_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "base/files.h"
#include "launcher/message.h"
#include "launcher/sandbox.h"

namespace dsec {
namespace {

constexpr int kDepthMax = 512;
constexpr int64_t kSectorBytes = 512;  // of st_blocks, whatever the file system's block is
// So many descriptors and mappings of one sandbox are looked through, which takes seconds.
constexpr int64_t kLinksMax = 1'000'000;
// Even an empty file takes something that the disk has a limited number of.
constexpr int64_t kInodeBytes = 4096;
constexpr int64_t kLookEveryUs = 250'000;
constexpr int64_t kToldBytes = 1 << 20;
// A walk may take this part of the helper's time for one sandbox.
constexpr int64_t kWalkShare = 20;
// A layer that could not reach its bound at this speed is not looked at.
constexpr int64_t kDiskBytesPerSecond = int64_t{2} << 30;

struct CloseDirectory {
  void operator()(DIR* stream) const { ::closedir(stream); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

class Tally {
 public:
  void add(const struct stat& status) {
    if (status.st_nlink != 1 && !seen_.insert({status.st_dev, status.st_ino}).second) return;
    bytes_ += std::max<int64_t>(status.st_blocks * kSectorBytes, kInodeBytes);
  }
  void add_link() {
    if (++links_ > kLinksMax) overflow();
  }
  void overflow() { bytes_ = INT64_MAX; is_final_ = true; }
  bool is_final() const { return is_final_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::set<std::pair<dev_t, ino_t>> seen_;
  int64_t bytes_ = 0;
  int64_t links_ = 0;
  bool is_final_ = false;
};

void walk(Fd folder, int depth, Tally& tally) {
  if (depth > kDepthMax) return tally.overflow();
  Directory stream(::fdopendir(folder.get()));
  if (!stream) return;
  int directory = folder.release();
  while (const dirent* entry = ::readdir(stream.get())) {
    if (tally.is_final()) return;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat status{};
    // The sandbox is at work: what vanished meanwhile takes no room.
    if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    tally.add(status);
    if (!S_ISDIR(status.st_mode)) continue;
    Fd inner(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (inner) walk(std::move(inner), depth + 1, tally);
    else if (errno == EMFILE) tally.overflow();
  }
}

// What a memory file is, its file system tells: names are the sandbox's to choose.
bool is_memory(const std::string& link) {
  struct statfs status{};
  return ::statfs(link.c_str(), &status) == 0 &&
         (status.f_type == TMPFS_MAGIC || status.f_type == HUGETLBFS_MAGIC || status.f_type == RAMFS_MAGIC);
}

// Follows the magic links of a folder in /proc. False where there were none.
bool add_unlinked(const std::string& links, Tally& tally) {
  Directory stream(::opendir(links.c_str()));
  if (!stream) return false;
  int directory = ::dirfd(stream.get());
  bool found = false;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (entry->d_name[0] == '.') continue;
    found = true;
    tally.add_link();
    if (tally.is_final()) return true;
    struct stat status{};
    if (::fstatat(directory, entry->d_name, &status, 0) != 0) continue;
    if (!S_ISREG(status.st_mode) || status.st_nlink != 0) continue;
    if (!is_memory(links + "/" + entry->d_name)) tally.add(status);
  }
  return found;
}

bool share_descriptors(const std::string& one, const std::string& other) {
  return ::syscall(SYS_kcmp, std::stol(one), std::stol(other), KCMP_FILES, 0, 0) == 0;
}

// Every thread can have a table of descriptors of its own, and outlive the thread that the process is named after.
void add_held_by(const std::string& process, Tally& tally) {
  Directory threads(::opendir(("/proc/" + process + "/task").c_str()));
  if (!threads) return;
  std::string looked_at;
  bool is_mapping_known = false;
  while (const dirent* entry = ::readdir(threads.get())) {
    if (tally.is_final()) return;
    const std::string thread = entry->d_name;
    if (thread[0] == '.') continue;
    if (looked_at.empty() || !share_descriptors(looked_at, thread)) {
      if (add_unlinked("/proc/" + thread + "/fd", tally)) looked_at = thread;
    }
    // Those that live have one memory.
    if (!is_mapping_known) is_mapping_known = add_unlinked("/proc/" + thread + "/map_files", tally);
  }
}

struct Watched {
  DiskBound bound;
  int64_t due_us;
  int64_t told_bytes = 0;
};

void look(Watched& watched, int socket) {
  const int64_t started_us = now_us();
  const int64_t used = disk_bytes_used(watched.bound.folder, watched.bound.cgroup);
  const int64_t ended_us = now_us();
  const bool is_over = used > watched.bound.bytes;
  if (is_over || std::abs(used - watched.told_bytes) >= kToldBytes) {
    (void)send_message(socket, {{"id", watched.bound.id}, {"bytes", used}});
    watched.told_bytes = used;
  }
  if (is_over) {
    watched.due_us = INT64_MAX;
    return;
  }
  const int64_t headroom_us = (watched.bound.bytes - used) / (kDiskBytesPerSecond / 1'000'000);
  watched.due_us = ended_us + std::max({kLookEveryUs, (ended_us - started_us) * kWalkShare, headroom_us});
}

}  // namespace

int64_t disk_bytes_used(const std::string& folder, const std::string& cgroup) {
  Tally tally;
  Fd top(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (top) walk(std::move(top), 0, tally);
  Result<std::string> members = read_file(AT_FDCWD, cgroup + "/cgroup.procs");
  if (!members || tally.is_final()) return tally.bytes();
  std::stringstream lines(*members);
  for (std::string process; std::getline(lines, process) && !tally.is_final();) add_held_by(process, tally);
  return tally.bytes();
}

void watch_disks_until_closed(int socket) {
  std::map<std::string, Watched> all;
  for (;;) {
    int64_t next_us = INT64_MAX;
    for (auto& [id, watched] : all) next_us = std::min(next_us, watched.due_us);
    const int64_t wait_us = next_us == INT64_MAX ? -1 : std::max<int64_t>(0, next_us - now_us());
    pollfd ready{socket, POLLIN, 0};
    const int count = ::poll(&ready, 1, wait_us < 0 ? -1 : static_cast<int>(wait_us / 1000 + 1));
    if (count > 0) {
      Result<std::optional<Message>> message = receive_message(socket);
      if (!message || !*message) return;
      const nlohmann::json& body = (*message)->body;
      DiskBound bound{body.at("id"), body.at("folder"), body.at("cgroup"), body.at("bytes")};
      if (bound.bytes == 0) all.erase(bound.id);
      else all[bound.id] = {bound, now_us() + kLookEveryUs};
      continue;
    }
    const int64_t now = now_us();
    for (auto& [id, watched] : all) {
      if (watched.due_us <= now) look(watched, socket);
    }
  }
}

Result<void> send_disk_bound(int socket, const DiskBound& bound) {
  return send_message(socket,
                      {{"id", bound.id}, {"folder", bound.folder}, {"cgroup", bound.cgroup}, {"bytes", bound.bytes}});
}

}  // namespace dsec
