// The /dev of every sandbox: one read-only tmpfs, made once and cloned.
#pragma once

#include "base/result.h"

namespace dsec {

// Mounts the template on `folder`: null zero full random urandom tty, the standard stream links and the empty folder
// shm, which each sandbox mounts a tmpfs of its own over. There is no pts: a sandbox has no terminals.
Result<void> make_device_template(const char* folder);

// In the sandbox's mount namespace, with the sandbox's root as the working directory.
Result<void> mount_devices(const char* device_template);

}  // namespace dsec
