#include "launcher/slots.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/files.h"
#include "launcher/mounts.h"
#include "launcher/namespaces.h"

namespace dsec {
namespace {

// 2^31 ids are the most that every file system and tool agrees on.
constexpr uint64_t kIdEnd = uint64_t{1} << 31;

// Attaches a copy of the folder's mount with ids mapped: root inside owns what root on the host owns.
Result<void> attach_mapped(const std::string& source, const std::string& target, uint64_t attributes, const Slot& slot) {
  TRY_ASSIGN(mount, clone_mount(AT_FDCWD, source));
  Result<void> mapped =
      set_mount_attributes(mount.get(), "", {.set = attributes, .user_namespace = slot.user_namespace.get()});
  if (!mapped) {
    Error error{"mount_setattr MOUNT_ATTR_IDMAP", source + ": use a file system with idmapped mounts (ext4, xfs, btrfs)",
                mapped.error().number, "HOST_UNSUITABLE"};
    return error;
  }
  TRY(make_directory(target, 0700));
  return attach_mount(mount.get(), target);
}

}  // namespace

Result<Slot*> Slots::acquire() {
  if (free_.empty()) {
    TRY_ASSIGN(made, make());
    free_.push_back(made.get());
    all_.push_back(std::move(made));
  }
  Slot* slot = free_.back();
  free_.pop_back();
  return slot;
}

Result<uint32_t> Slots::claim_ids() {
  while (next_id_ + kIdsPerSlot <= kIdEnd) {
    const uint32_t first = static_cast<uint32_t>(next_id_);
    next_id_ += kIdsPerSlot;
    TRY_ASSIGN(ours, ranges_.claim(first, kIdsPerSlot));
    if (ours) return first;
  }
  return Error{"sandbox slot", std::to_string(all_.size()) + ": no host ids are left below 2^31; lower uidBase"};
}

Result<std::unique_ptr<Slot>> Slots::make() {
  TRY_ASSIGN(first, claim_ids());
  auto slot = std::make_unique<Slot>();
  slot->first_id = first;
  slot->folder = "s" + std::to_string(all_.size());
  TRY_ASSIGN(user_namespace, make_user_namespace(slot->first_id));
  slot->user_namespace = std::move(user_namespace);
  TRY(make_directory(slot->folder, 0700));
  TRY(attach_mapped(layers_, slot->folder + "/u", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, *slot));
  return slot;
}

Result<std::string> Slots::lower_layer(Slot& slot, const Image& image) {
  const std::string path = slot.folder + "/" + std::to_string(image.number);
  if (slot.images.contains(image.number)) return path;
  TRY(attach_mapped(image.folder, path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, slot));
  slot.images.insert(image.number);
  return path;
}

void Slots::forget(const Image& image) {
  for (const auto& slot : all_) {
    if (slot->images.erase(image.number) == 0) continue;
    const std::string path = slot->folder + "/" + std::to_string(image.number);
    ::umount2(path.c_str(), MNT_DETACH);
    ::rmdir(path.c_str());
  }
}

}  // namespace dsec
