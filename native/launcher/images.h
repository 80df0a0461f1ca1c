// The lower layers: a view of the host, and EROFS files, each mounted once however many sandboxes use it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "base/result.h"

namespace dsec {

struct Image {
  uint64_t number = 0;
  // Where the layer lies in the launcher's mount namespace.
  std::string folder;
  // Host folders that are mounted read-only over the layer, at the same path.
  bool has_host_usr = false;
};

class Images {
 public:
  // `host_folder` holds what make_host_image made.
  explicit Images(const std::string& host_folder) : host_{0, host_folder, true} {}

  const Image& host() const { return host_; }
  // IMAGE_NOT_FOUND, or IMAGE_INVALID where the kernel does not take the file for an EROFS.
  Result<const Image*> erofs(const std::string& path);
  // Unmounts the image that was asked for longest ago when there are many, and names it. Sandboxes that run from it hold
  // on to their own copy of its mount.
  std::optional<Image> evict();

 private:
  // A file that was replaced is another image, though its path is the same.
  using Key = std::tuple<uint64_t, uint64_t, int64_t, int64_t>;

  struct Mounted {
    Image image;
    uint64_t used = 0;
  };

  Image host_;
  std::map<Key, Mounted> erofs_;
  uint64_t next_ = 1;
  uint64_t uses_ = 0;
};

}  // namespace dsec
