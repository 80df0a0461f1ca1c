// seccomp(2): the system calls a sandbox may make.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "base/result.h"

namespace dsec {

// Compiled once; the same for every sandbox. What the list does not name gets ENOSYS, as on a kernel that lacks it, so
// that programs fall back; what is refused on purpose gets EPERM.
class SeccompFilter {
 public:
  static Result<SeccompFilter> compile();

  // Loads the filter into the calling thread, which must have no_new_privs.
  Result<void> load() const;

 private:
  std::vector<sock_filter> program_;
};

}  // namespace dsec
