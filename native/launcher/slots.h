// A slot is the identity of one sandbox at a time: its range of host ids, its user namespace, and the layers seen
// through that namespace. Slots are made when first needed and used again.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/id_ranges.h"
#include "launcher/images.h"

namespace dsec {

struct Slot {
  uint32_t first_id = 0;
  Fd user_namespace;
  // Folder of this slot's mounts, relative to the launcher's working directory, so that the sandbox's mountinfo shows
  // this short name and no path of the host.
  std::string folder;
  // Images whose lower layer is mounted at `<folder>/<image>`.
  std::set<uint64_t> images;
};

class Slots {
 public:
  // `layers` is the folder that upper layers are mounted from.
  Slots(IdRanges ranges, uint32_t uid_base, std::string layers)
      : ranges_(std::move(ranges)), next_id_(uid_base), layers_(std::move(layers)) {}

  Result<Slot*> acquire();
  void release(Slot* slot) { free_.push_back(slot); }

  // Where the image's lower layer lies for this slot, relative to the working directory.
  Result<std::string> lower_layer(Slot& slot, const Image& image);
  // Takes the image out of every slot, before its own mount goes.
  void forget(const Image& image);

 private:
  // The next range that no other launcher has.
  Result<uint32_t> claim_ids();
  Result<std::unique_ptr<Slot>> make();

  IdRanges ranges_;
  uint64_t next_id_;
  std::string layers_;
  std::vector<std::unique_ptr<Slot>> all_;
  std::vector<Slot*> free_;
};

}  // namespace dsec
