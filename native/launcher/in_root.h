// Paths that a stranger may have shaped, resolved within a root: openat2(2) with RESOLVE_IN_ROOT, so that "..",
// absolute links and planted links all end inside, and RESOLVE_NO_MAGICLINKS, so that /proc is no way out.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

Result<Fd> open_in_root(int root, const std::string& path, int flags);

// Makes what is missing of a folder's path, and opens it as O_PATH. Owners are the caller's file system ids.
Result<Fd> make_directories_in_root(int root, const std::string& path, unsigned mode);

// Makes an empty file, and the folders above it, unless it is there; opens it as O_PATH.
Result<Fd> make_file_in_root(int root, const std::string& path);

}  // namespace dsec
