// Documentation/admin-guide/cgroup-v2.rst of the kernel: one hierarchy for all controllers.
#include "launcher/cgroup.h"

#include <sstream>

namespace dsec {
namespace {

constexpr int64_t kPeriodUs = 100'000;

// io.max: "major:minor rbps=max wbps=max riops=100 wiops=100"
std::optional<int64_t> write_iops(const std::string& content) {
  std::stringstream stream(content);
  const std::string name = "wiops=";
  for (std::string field; stream >> field;) {
    if (field.starts_with(name)) return limit_value(field.substr(name.size()));
  }
  return std::nullopt;
}

class V2 : public CgroupInterface {
 public:
  const char* version() const override { return "v2"; }
  const char* attach_file() const override { return nullptr; }

  std::vector<Setting> settings(const Limits& limits, const std::string& device) const override {
    std::vector<Setting> settings = {
        {"memory", "memory.max", std::to_string(limits.memory_bytes)},
        {"memory", "memory.swap.max", "0", true},
        {"pids", "pids.max", std::to_string(limits.pids)},
    };
    if (limits.disk_iops > 0) {
      const std::string iops = std::to_string(limits.disk_iops);
      settings.push_back({"io", "io.max", device + " riops=" + iops + " wiops=" + iops});
    }
    return settings;
  }

  std::vector<Setting> cpu_settings(int64_t cpu_millis) const override {
    return {{"cpu", "cpu.max", std::to_string(cpu_millis * kPeriodUs / 1000) + " " + std::to_string(kPeriodUs)}};
  }

  EffectiveLimits limits(const Cgroup& group) const override {
    EffectiveLimits limits;
    if (auto content = group.read("cpu", "cpu.max")) {
      std::stringstream stream(*content);
      std::string quota;
      int64_t period = 0;
      stream >> quota >> period;
      auto value = limit_value(quota);
      if (value && period > 0) limits.cpu_millis = *value * 1000 / period;
    }
    if (auto content = group.read("memory", "memory.max")) limits.memory_bytes = limit_value(*content);
    if (auto content = group.read("pids", "pids.max")) limits.pids = limit_value(*content);
    if (auto content = group.read("io", "io.max")) limits.disk_iops = write_iops(*content);
    return limits;
  }

  Usage usage(const Cgroup& group) const override {
    Usage usage;
    if (auto content = group.read("cpu", "cpu.stat")) usage.cpu_us = keyed_value(*content, "usage_usec").value_or(0);
    // From Linux 5.19; older kernels leave it at 0.
    if (auto content = group.read("memory", "memory.peak")) usage.memory_peak_bytes = limit_value(*content).value_or(0);
    return usage;
  }

  int64_t oom_kills(const Cgroup& group) const override {
    auto content = group.read("memory", "memory.events");
    return content ? keyed_value(*content, "oom_kill").value_or(0) : 0;
  }
};

}  // namespace

std::unique_ptr<CgroupInterface> cgroup_v2() { return std::make_unique<V2>(); }

}  // namespace dsec
