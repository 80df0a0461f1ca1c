// capabilities(7): root of a sandbox has power over the sandbox's own ids and the files that belong to them, and no way
// to get more.
#pragma once

#include "base/result.h"

namespace dsec {

// Call after joining the sandbox's user namespace, which gives every capability anew, and after the last change of
// identity. Sets no_new_privs, locks the securebits, and leaves in the bounding, permitted and effective sets what
// docs/decisions/0019 names; whoever leaves uid 0 inside leaves them behind.
Result<void> keep_powers_over_own_ids();

}  // namespace dsec
