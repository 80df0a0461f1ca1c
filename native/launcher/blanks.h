// What of a sandbox is made before its plan is known: whom it runs as, and its root with an empty writable layer. To make it
// takes some ten steps of the file system below, each of which may have to wait for that one's journal, so a few are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/images.h"
#include "launcher/slots.h"

namespace dsec {

struct Blank {
  uint64_t image = 0;
  Slot* slot = nullptr;
  // Holds the writable layer.
  std::string folder;
  // The detached overlay mount, with the mount points that every root needs.
  Fd root;
};

class Blanks {
 public:
  // `folder` is where the layers lie; `image` is the one whose blanks are kept at first.
  Blanks(std::string folder, const Image& image) : folder_(std::move(folder)), kept_(image), last_(image.number) {}

  // One that is ready, or made now. None is given twice.
  Result<Blank> take(Slots& slots, const Image& image);
  // One step towards enough of them; false when there is none left to do. Called when there is nothing else to do.
  Result<bool> refill(Slots& slots);
  // Removes one that no sandbox was made of.
  void discard(Slots& slots, Blank blank);
  // The image is about to be unmounted.
  void forget(Slots& slots, const Image& image);
  void clear(Slots& slots);

 private:
  Result<Blank> make(Slots& slots, const Image& image);

  std::string folder_;
  std::vector<Blank> ready_;
  // Whose blanks are kept: the last image that was asked for twice in a row, so that images in turn empty no stock.
  std::optional<Image> kept_;
  uint64_t last_;
  uint64_t next_ = 0;
};

}  // namespace dsec
