// What a `host` image has of the host's /etc: settings that programs in /usr do not run without, chosen by kind.
#pragma once

#include <string>

#include "base/result.h"

namespace dsec {

// Copies what belongs to the kinds from one /etc to another, links as links. Settings of this machine, of its users and of
// its services are left out, and so is what not every user of the host may read and whatever looks like a secret.
Result<void> copy_configuration(const std::string& from, const std::string& to);

}  // namespace dsec
