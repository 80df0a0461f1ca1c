// capabilities(7): a sandbox has none, in any set, and no way to get one.
#pragma once

#include "base/result.h"

namespace dsec {

// Call after joining the sandbox's user namespace, which gives every capability anew. Sets no_new_privs, locks the
// securebits, empties all five sets.
Result<void> drop_all_capabilities();

}  // namespace dsec
