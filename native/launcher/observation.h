// What the kernel says about pid 1 of a sandbox: the ground of the attestation. Nothing here repeats what was asked for.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "launcher/cgroup.h"

namespace dsec {

// The `Observation` of native/index.ts.
Result<nlohmann::json> observe(pid_t init, const CgroupInterface& interface, const Cgroup& cgroup);

}  // namespace dsec
