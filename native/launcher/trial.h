// One sandbox made and ended before the first plan is taken.
#pragma once

#include "base/result.h"
#include "launcher/sandbox.h"

namespace dsec {

// HOST_UNSUITABLE names the call that this host refused. Whatever a sandbox needs of the kernel, of the state folder's
// file system and of the cgroups is tried in this one place, so that no task has to find out.
Result<void> try_host(Host& host);

}  // namespace dsec
