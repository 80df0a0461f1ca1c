// The accounts of a `host` image: those whose numbers Debian fixes for all its systems (base-passwd), all locked. No
// account of the host is among them.
#pragma once

#include <string>

namespace dsec {

// In the form of passwd(5) and group(5), and what shadow(5) and gshadow(5) say of them.
std::string account_lines();
std::string group_lines();
std::string shadow_lines();
std::string group_shadow_lines();

}  // namespace dsec
