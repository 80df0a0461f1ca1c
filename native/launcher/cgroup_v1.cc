// Documentation/admin-guide/cgroup-v1 of the kernel: one hierarchy for each controller.
#include "launcher/cgroup.h"

#include <sstream>

namespace dsec {
namespace {

constexpr int64_t kPeriodUs = 100'000;

// Lines of "major:minor value"; a sandbox limits one disk, with the same number for reads and writes.
std::optional<int64_t> device_value(const std::string& content) {
  std::stringstream stream(content);
  std::string device;
  int64_t value;
  if (stream >> device >> value) return value;
  return std::nullopt;
}

class V1 : public CgroupInterface {
 public:
  const char* version() const override { return "v1"; }
  const char* attach_file() const override { return "tasks"; }

  std::vector<Setting> settings(const Limits& limits, const std::string& device) const override {
    const std::string memory = std::to_string(limits.memory_bytes);
    std::vector<Setting> settings = {
        {"memory", "memory.limit_in_bytes", memory},
        // Memory and swap together, so that nothing is swapped out. It may not be less than the limit above, so it
        // comes second.
        {"memory", "memory.memsw.limit_in_bytes", memory, true},
        {"pids", "pids.max", std::to_string(limits.pids)},
    };
    if (limits.disk_iops > 0) {
      const std::string value = device + " " + std::to_string(limits.disk_iops);
      settings.push_back({"blkio", "blkio.throttle.read_iops_device", value});
      settings.push_back({"blkio", "blkio.throttle.write_iops_device", value});
    }
    return settings;
  }

  std::vector<Setting> cpu_settings(int64_t cpu_millis) const override {
    return {{"cpu", "cpu.cfs_period_us", std::to_string(kPeriodUs)},
            {"cpu", "cpu.cfs_quota_us", std::to_string(cpu_millis * kPeriodUs / 1000)}};
  }

  EffectiveLimits limits(const Cgroup& group) const override {
    EffectiveLimits limits;
    auto number = [&](const char* controller, const char* file) -> std::optional<int64_t> {
      auto content = group.read(controller, file);
      return content ? limit_value(*content) : std::nullopt;
    };
    auto quota = number("cpu", "cpu.cfs_quota_us"), period = number("cpu", "cpu.cfs_period_us");
    if (quota && period && *period > 0) limits.cpu_millis = *quota * 1000 / *period;
    limits.memory_bytes = number("memory", "memory.limit_in_bytes");
    limits.pids = number("pids", "pids.max");
    if (auto content = group.read("blkio", "blkio.throttle.write_iops_device")) limits.disk_iops = device_value(*content);
    return limits;
  }

  Usage usage(const Cgroup& group) const override {
    Usage usage;
    if (auto content = group.read("cpuacct", "cpuacct.usage")) usage.cpu_us = limit_value(*content).value_or(0) / 1000;
    if (auto content = group.read("memory", "memory.max_usage_in_bytes")) {
      usage.memory_peak_bytes = limit_value(*content).value_or(0);
    }
    return usage;
  }

  int64_t oom_kills(const Cgroup& group) const override {
    auto content = group.read("memory", "memory.oom_control");
    return content ? keyed_value(*content, "oom_kill").value_or(0) : 0;
  }
};

}  // namespace

std::unique_ptr<CgroupInterface> cgroup_v1() { return std::make_unique<V1>(); }

}  // namespace dsec
