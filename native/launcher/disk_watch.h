// The bound on a sandbox's writable layer. No quota of the kernel fits every host (see docs/decisions/0002), so a helper
// process measures the layers and tells how they grow.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace dsec {

// What the helper is told: look after a layer, or no more (bytes 0).
struct DiskBound {
  std::string id;
  std::string folder;  // the layer's upper folder
  std::string cgroup;  // whose members may hold unlinked files open
  int64_t bytes = 0;
};

// The helper's work: until the launcher closes the socket, sends `{id, bytes}` for a layer that has come to take up a
// mebibyte more or less than was last told, or has passed its bound, which ends the looking at it.
void watch_disks_until_closed(int socket);

Result<void> send_disk_bound(int socket, const DiskBound& bound);

// Bytes that the folder's files take up on the disk, each inode once and for 4 KiB at least, and those of unlinked files that members of the
// cgroup hold open or mapped. A tree too deep to walk counts as INT64_MAX.
int64_t disk_bytes_used(const std::string& folder, const std::string& cgroup);

}  // namespace dsec
