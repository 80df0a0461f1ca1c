// The plan of one sandbox, as native/index.ts documents it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dsec {

struct Limits {
  int64_t cpu_millis = 0;
  int64_t memory_bytes = 0;
  int64_t pids = 0;
  int64_t disk_iops = 0;   // 0 is no limit
  int64_t disk_bytes = 0;  // 0 is no limit
};

struct Bind {
  std::string source;
  std::string target;
};

struct Plan {
  std::string id;
  std::string erofs_path;  // empty: the host image
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // NAME=value
  std::string working_directory;
  std::string stdin_path;  // empty: /dev/null
  std::string hostname;
  std::vector<Bind> mounts;
  std::vector<uint16_t> loopback_ports;
  Limits limits;
  int64_t timeout_ms = 0;
};

// INVALID_REQUEST names the member that is missing or out of bounds.
Result<Plan> parse_plan(std::string_view json);

}  // namespace dsec
