// Ranges of host ids, each with one living launcher of this host, whatever its state folder.
#pragma once

#include <cstdint>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

class IdRanges {
 public:
  static Result<IdRanges> open();

  // False where another launcher has any id of the range. It is this one's until this one is dead.
  Result<bool> claim(uint32_t first, uint32_t count);

 private:
  Fd file_;
};

}  // namespace dsec
