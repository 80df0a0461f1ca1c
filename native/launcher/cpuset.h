// cpuset(7) of version 1. It limits nothing here: Java takes no limit of version 1 for true unless it finds this hierarchy
// too, and seen through the host's own group it would show every other group of the host.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"

namespace dsec {

// A group that the launcher sits in, and so whatever it starts: that costs a launch nothing.
class Cpuset {
 public:
  // With the processors and memory nodes that this process has already. None where the hierarchy is not mounted, or has
  // groups that would share with no other.
  static std::shared_ptr<Cpuset> enter(const std::string& name);
  // Goes back to where it was; everything that it started has ended.
  ~Cpuset();
  Cpuset(const Cpuset&) = delete;
  Cpuset& operator=(const Cpuset&) = delete;

  int directory() const { return directory_.get(); }

 private:
  Cpuset() = default;

  std::string path_;
  Fd directory_;
  Fd earlier_;  // the `tasks` of the group that it came from
};

}  // namespace dsec
