// Removal of what dead sandboxes leave: cgroups and writable layers. A helper process does it.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "base/result.h"

namespace dsec {

struct SweepJob {
  std::string id;
  std::string folder;
  std::vector<std::string> cgroups;
};

// The helper's work: takes jobs until the launcher closes the socket, and answers each with `{id, error}`.
void sweep_until_closed(int socket);

Result<void> send_sweep_job(int socket, const SweepJob& job);

}  // namespace dsec
