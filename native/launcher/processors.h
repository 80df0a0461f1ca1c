// sched(7): which processors a sandbox runs on. As many as its CPU limit rounded up, because programs start a worker for
// each one that they may run on; the quota of its cgroup is what bounds it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace dsec {

struct ProcessorShare {
  std::vector<unsigned> numbers;  // ascending
  int64_t millis_each = 0;
};

class Processors {
 public:
  // Those that have the least promised, of the ones that the launcher itself may run on at this moment.
  Result<ProcessorShare> take(int64_t cpu_millis);
  void give_back(const ProcessorShare& share);

 private:
  std::vector<int64_t> promised_millis_;  // by the processor's number
};

// For a process that sleeps: the kernel notes it down, where one that runs is first to be moved away.
Result<void> run_on(pid_t pid, const std::vector<unsigned>& processors);

// The form of cpuset(7): "0-3,7".
std::string processor_list(const std::vector<unsigned>& numbers);

}  // namespace dsec
