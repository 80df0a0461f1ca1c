// What the files of proc(5) would hold on a machine that is as large as a sandbox. Pure: made from the host's own texts, so
// that names, forms and the processor's model are those of this kernel.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dsec {

struct HostTexts {
  std::string meminfo;
  std::string cpuinfo;
  std::string stat;
};

// All of the memory free and nothing in swap: what is used at a moment only the cgroup tells.
std::string meminfo_within(const HostTexts& host, int64_t memory_bytes);
// Those processors with their own numbers; of what they share as much as they have of it.
std::string cpuinfo_of(const HostTexts& host, const std::vector<unsigned>& processors);
// Those processors and the time of the boot, which start times of processes count from. All counters are 0.
std::string stat_of(const HostTexts& host, const std::vector<unsigned>& processors);

}  // namespace dsec
