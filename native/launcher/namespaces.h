// The namespaces that are made ahead of a sandbox: user (one a slot), network, and the mount namespace that every
// sandbox's own is copied from.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

// Ids that a sandbox may have: user_namespaces(7) maps 0..65535 inside to `first`..`first`+65535 on the host.
constexpr uint32_t kIdsPerSlot = 65536;

Result<Fd> make_user_namespace(uint32_t first_id);

// Moves this process into a mount namespace of its own that still sees new mounts of the host, but whose own mounts
// die with this process and never show on the host.
Result<void> enter_private_mount_namespace();

// A mount namespace that holds an empty tmpfs with the folder /sandbox, and /dev-template (see devices.h): copying it
// costs a few microseconds however many mounts the host has. `scratch` is any folder.
Result<Fd> make_skeleton_mount_namespace(const char* scratch);

// Network namespaces with nothing but a running loopback. Making one takes the kernel about 0.7 ms, so a few are kept.
// None is used twice: sockets in TIME_WAIT outlive their sandbox.
class NetworkNamespaces {
 public:
  Result<Fd> take();
  // Makes one more; false when there are enough. Called when there is nothing else to do.
  Result<bool> refill();

 private:
  std::vector<Fd> ready_;
};

}  // namespace dsec
