// Work that may take long runs in a process of its own, so that the launcher's loop never waits for a disk.
#pragma once

#include <functional>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

// Forks. The helper runs `work` with its end of a SEQPACKET pair and ends when that returns or the launcher dies. The
// launcher's end is returned.
Result<Fd> start_helper(const char* name, const std::function<void(int socket)>& work);

}  // namespace dsec
