// overlayfs: the writable layer of one sandbox over the lower layer of its image.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

// While it lives, files this thread makes belong to the id (setfsuid(2), setfsgid(2)). SECBIT_NO_SETUID_FIXUP must be
// set, or the capabilities over files would go with uid 0.
class FileOwner {
 public:
  explicit FileOwner(uint32_t id);
  ~FileOwner();
  FileOwner(const FileOwner&) = delete;
  FileOwner& operator=(const FileOwner&) = delete;
};

// A detached overlay mount. `layer` holds the folders `upper` and `work`, both seen through the slot's id mapping;
// `owner` is the host id of the sandbox's root. Call under FileOwner: overlayfs does its own writing as whoever makes
// the mount, and with an id outside the mapping it would quietly be read-only.
//
// The mount is `volatile`: nothing in it outlives the sandbox, and a sync of it would flush the whole disk below. So
// fsync(2) inside costs and promises nothing.
Result<Fd> make_overlay(const std::string& lower, const std::string& layer);

}  // namespace dsec
