#include "launcher/blanks.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/remove_tree.h"
#include "launcher/in_root.h"
#include "launcher/overlay.h"

namespace dsec {
namespace {

constexpr size_t kKept = 8;

// The writable layer's folders; `work` is overlayfs's own.
Result<void> make_layer(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0) return failed("mkdir", folder);
  for (const char* name : {"/upper", "/work"}) {
    if (::mkdir((folder + name).c_str(), 0755) != 0) return failed("mkdir", folder + name);
  }
  return {};
}

// Mount points that every root needs, made where an image lacks them.
Result<void> make_mount_points(int root) {
  for (const char* path : {"dev", "proc", "sys"}) {
    TRY_ASSIGN(made, make_directories_in_root(root, path, 0555));
  }
  Result<Fd> scratch = open_in_root(root, "tmp", O_PATH | O_DIRECTORY);
  if (scratch) return {};
  if (scratch.error().number != ENOENT) return std::move(scratch).error();
  if (::mkdirat(root, "tmp", 01777) != 0 || ::fchmodat(root, "tmp", 01777, 0) != 0) return failed("mkdir", "/tmp");
  return {};
}

}  // namespace

Result<Blank> Blanks::take(Slots& slots, const Image& image) {
  if (image.number == last_) kept_ = image;
  last_ = image.number;
  auto found = std::find_if(ready_.begin(), ready_.end(), [&](const Blank& blank) { return blank.image == image.number; });
  if (found == ready_.end()) return make(slots, image);
  Blank taken = std::move(*found);
  ready_.erase(found);
  return taken;
}

Result<bool> Blanks::refill(Slots& slots) {
  if (!kept_) return false;
  auto other = std::find_if(ready_.begin(), ready_.end(), [&](const Blank& blank) { return blank.image != kept_->number; });
  if (other != ready_.end()) {
    Blank left = std::move(*other);
    ready_.erase(other);
    discard(slots, std::move(left));
    return true;
  }
  if (ready_.size() >= kKept) return false;
  TRY_ASSIGN(made, make(slots, *kept_));
  ready_.push_back(std::move(made));
  return true;
}

void Blanks::discard(Slots& slots, Blank blank) {
  blank.root.reset();
  (void)remove_tree(AT_FDCWD, blank.folder);
  slots.release(blank.slot);
}

void Blanks::forget(Slots& slots, const Image& image) {
  if (kept_ && kept_->number == image.number) kept_.reset();
  for (auto blank = ready_.begin(); blank != ready_.end();) {
    if (blank->image != image.number) {
      ++blank;
      continue;
    }
    discard(slots, std::move(*blank));
    blank = ready_.erase(blank);
  }
}

void Blanks::clear(Slots& slots) {
  kept_.reset();
  for (Blank& blank : ready_) discard(slots, std::move(blank));
  ready_.clear();
}

Result<Blank> Blanks::make(Slots& slots, const Image& image) {
  const std::string name = std::to_string(next_++);
  TRY_ASSIGN(slot, slots.acquire());
  Blank blank{image.number, slot, folder_ + "/" + name, Fd()};
  Result<void> made = [&]() -> Result<void> {
    TRY_ASSIGN(lower, slots.lower_layer(*slot, image));
    TRY(make_layer(blank.folder));
    FileOwner owner(slot->first_id);
    TRY_ASSIGN(root, make_overlay(lower, slot->folder + "/u/" + name));
    blank.root = std::move(root);
    return make_mount_points(blank.root.get());
  }();
  if (made) return blank;
  discard(slots, std::move(blank));
  return std::move(made).error();
}

}  // namespace dsec
