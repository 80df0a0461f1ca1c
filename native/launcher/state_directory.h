// The launcher's private folder: a lock that one living launcher holds, the writable layers, and the mount points that
// only the launcher's own mount namespace fills.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

class StateDirectory {
 public:
  // Makes the folder and takes the lock; HOST_UNSUITABLE when another launcher lives on it.
  static Result<StateDirectory> open(const std::string& path);

  const std::string& path() const { return path_; }
  // Sixteen hexadecimal digits that stand for the folder's real path in the names of cgroups.
  std::string hash() const;
  // major:minor of the disk under the writable layers, as the I/O controllers want it: a whole disk, not a partition.
  Result<std::string> disk() const;

  // Layers that no sandbox has yet; one that is taken goes to `sandboxes`.
  std::string blanks() const { return path_ + "/blanks"; }
  std::string sandboxes() const { return path_ + "/sandboxes"; }
  std::string mounts() const { return path_ + "/mounts"; }
  std::string host_image() const { return path_ + "/host-image"; }

  // Removes the layers an earlier launcher left and makes the folders anew.
  Result<void> reset() const;
  // Removes everything in the folder; the folder itself stays.
  Result<void> clear() const;

 private:
  std::string path_;
  Fd lock_;
};

}  // namespace dsec
