// Removal of a folder that a stranger filled.
#pragma once

#include <string>

#include "base/result.h"

namespace dsec {

// Removes `name` in `directory` with all it holds. Links are removed, never followed; immutable and append-only marks
// are taken off; depth is bounded only by the disk. What is not there is a success.
Result<void> remove_tree(int directory, const std::string& name);

}  // namespace dsec
