#include "base/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/files.h"

namespace dsec {
namespace {

// Each level holds one descriptor. Deeper folders are moved up to the top first, so a stranger's depth cannot
// exhaust our descriptors or our stack.
constexpr int kDepthMax = 64;

struct CloseDirectory {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

void clear_protection(int directory, const char* name) {
  Fd entry(::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  int flags = 0;
  if (!entry || ::ioctl(entry.get(), FS_IOC_GETFLAGS, &flags) != 0) return;
  flags &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
  ::ioctl(entry.get(), FS_IOC_SETFLAGS, &flags);
}

// unlinkat(2) that takes protection off the entry and its folder and then tries once more.
int unlink_hard(int directory, const char* name, int flags) {
  if (::unlinkat(directory, name, flags) == 0 || errno == ENOENT) return 0;
  if (errno != EPERM) return -1;
  clear_protection(directory, name);
  clear_protection(directory, ".");
  return ::unlinkat(directory, name, flags);
}

class Removal {
 public:
  explicit Removal(int top) : top_(top) {}

  Result<void> empty(int directory, int depth) {
    Fd copy(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!copy) return failed("open", "a folder being removed");
    std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(copy.get()));
    if (!stream) return failed("fdopendir", "a folder being removed");
    copy.release();
    while (const dirent* entry = ::readdir(stream.get())) {
      std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (unlink_hard(directory, name.c_str(), 0) == 0) continue;
      if (errno != EISDIR && errno != EPERM && errno != EACCES) return failed("unlink", name);
      TRY(remove_folder(directory, name, depth));
    }
    return {};
  }

 private:
  Result<void> remove_folder(int parent, const std::string& name, int depth) {
    if (depth >= kDepthMax) {
      std::string moved = ".deep-" + std::to_string(serial_++);
      if (::renameat(parent, name.c_str(), top_, moved.c_str()) != 0) return failed("rename", name);
      // The walk of the top folder may not list a name made while it runs, so take it in hand here.
      pending_.push_back(moved);
      return {};
    }
    Fd folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder) return failed("open", name);
    TRY(empty(folder.get(), depth + 1));
    if (unlink_hard(parent, name.c_str(), AT_REMOVEDIR) != 0) return failed("rmdir", name);
    return {};
  }

  int top_;
  unsigned long serial_ = 0;

 public:
  Result<void> empty_pending() {
    while (!pending_.empty()) {
      std::string name = std::move(pending_.back());
      pending_.pop_back();
      TRY(remove_folder(top_, name, 0));
    }
    return {};
  }

 private:
  std::vector<std::string> pending_;
};

}  // namespace

Result<void> remove_tree(int directory, const std::string& name) {
  Fd top(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!top) {
    if (errno == ENOENT) return {};
    if (errno != ENOTDIR && errno != ELOOP) return failed("open", name);
    if (unlink_hard(directory, name.c_str(), 0) != 0) return failed("unlink", name);
    return {};
  }
  Removal removal(top.get());
  TRY(removal.empty(top.get(), 0));
  TRY(removal.empty_pending());
  if (unlink_hard(directory, name.c_str(), AT_REMOVEDIR) != 0) return failed("rmdir", name);
  return {};
}

}  // namespace dsec
