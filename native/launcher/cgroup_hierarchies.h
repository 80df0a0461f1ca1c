// Where the launcher may make its groups: the hierarchies that are mounted, and which part of them is ours.
#pragma once

#include "base/result.h"
#include "launcher/cgroup.h"

namespace dsec {

struct Hierarchies {
  std::unique_ptr<CgroupInterface> interface;
  std::vector<Hierarchy> all;
};

// Version 2 where it offers every controller that is needed, else version 1. HOST_UNSUITABLE names what neither offers.
//
// On version 2 the groups lie below the group that was handed over to us (systemd's Delegate=yes), so that nobody else
// takes a controller away from them; without one, below the top. A group that has controllers to give holds no
// processes, so those that sit in it, Node and the launcher among them, are moved to the group `dsec-supervisor` in it.
Result<Hierarchies> find_hierarchies();

}  // namespace dsec
