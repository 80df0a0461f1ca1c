// proc(5) as a sandbox sees it.
#pragma once

#include "base/result.h"

namespace dsec {

// In the sandbox's pid and mount namespaces, with the sandbox's root as the working directory and dev/null in place.
// The kernel's tunables are read-only and what tells of the host's kernel memory and keys is covered. The user
// namespace already owns none of these files; this holds even if that ever fails.
Result<void> mount_proc();

}  // namespace dsec
