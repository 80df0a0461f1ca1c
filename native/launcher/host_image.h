// The `host` image: enough of a root file system to run what the host has in /usr, and nothing that is the host's own.
#pragma once

#include <string>

#include "base/result.h"

namespace dsec {

// Makes the folder, removing what was there. The sandbox gets /usr of the host mounted read-only over its /usr; /etc is
// written here from nothing but public facts: names for root and nobody, the loader's cache, the alternatives links,
// the certificate authorities.
Result<void> make_host_image(const std::string& folder);

}  // namespace dsec
