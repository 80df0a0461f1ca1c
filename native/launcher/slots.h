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
#include "launcher/images.h"

namespace dsec {

struct Slot {
  uint32_t index = 0;
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
  // `sandboxes` is the folder of the upper layers.
  Slots(uint32_t uid_base, std::string sandboxes) : uid_base_(uid_base), sandboxes_(std::move(sandboxes)) {}

  Result<Slot*> acquire();
  void release(Slot* slot) { free_.push_back(slot); }

  // Where the image's lower layer lies for this slot, relative to the working directory.
  Result<std::string> lower_layer(Slot& slot, const Image& image);
  // Takes the image out of every slot, before its own mount goes.
  void forget(const Image& image);

 private:
  Result<std::unique_ptr<Slot>> make(uint32_t index);

  uint32_t uid_base_;
  std::string sandboxes_;
  std::vector<std::unique_ptr<Slot>> all_;
  std::vector<Slot*> free_;
};

}  // namespace dsec
