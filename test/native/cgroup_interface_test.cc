// Both cgroup interfaces against folders that stand in for cgroupfs. This host may offer only one of them; names of
// files and forms of values can be held on any. Prints nothing and exits with 0, or names what is wrong.
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/files.h"
#include "launcher/cgroup.h"

using namespace dsec;

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  failures++;
}

std::string text(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) text += setting.controller + ":" + setting.file + "=" + setting.value + (setting.is_optional ? "?" : "") + "\n";
  return text;
}

const Limits kLimits{.cpu_millis = 1500, .memory_bytes = 536870912, .pids = 64, .disk_iops = 200, .disk_bytes = 0};

void v1_settings() {
  auto v1 = cgroup_v1();
  expect(text(v1->settings(kLimits, "254:0")) ==
             "memory:memory.limit_in_bytes=536870912\n"
             "memory:memory.memsw.limit_in_bytes=536870912?\n"
             "pids:pids.max=64\n"
             "blkio:blkio.throttle.read_iops_device=254:0 200\n"
             "blkio:blkio.throttle.write_iops_device=254:0 200\n",
         "the settings of v1");
  expect(text(v1->cpu_settings(1500)) == "cpu:cpu.cfs_period_us=100000\ncpu:cpu.cfs_quota_us=150000\n", "the CPU settings of v1");
  expect(text(v1->cpu_settings(10)) == "cpu:cpu.cfs_period_us=100000\ncpu:cpu.cfs_quota_us=1000\n", "the least CPU quota of v1");
}

void v2_settings() {
  auto v2 = cgroup_v2();
  expect(text(v2->settings(kLimits, "254:0")) ==
             "memory:memory.max=536870912\n"
             "memory:memory.swap.max=0?\n"
             "pids:pids.max=64\n"
             "io:io.max=254:0 riops=200 wiops=200\n",
         "the settings of v2");
  Limits unlimited = kLimits;
  unlimited.disk_iops = 0;
  expect(text(v2->settings(unlimited, "")).find("io.max") == std::string::npos, "no IOPS limit sets no io.max");
  expect(text(v2->cpu_settings(1500)) == "cpu:cpu.max=150000 100000\n", "the CPU settings of v2");
}

// A folder with the interface files of a v2 group, as kernel 6.1 writes them.
void v2_readings(const std::string& folder) {
  auto put = [&](const char* name, const char* content) { (void)make_file(folder + "/" + name, content, 0644); };
  put("cpu.max", "150000 100000\n");
  put("memory.max", "536870912\n");
  put("pids.max", "64\n");
  put("io.max", "254:0 rbps=max wbps=max riops=200 wiops=200\n");
  put("cpu.stat", "usage_usec 123456\nuser_usec 100000\nsystem_usec 23456\n");
  put("memory.peak", "1048576\n");
  put("memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n");
  auto v2 = cgroup_v2();
  Hierarchy hierarchy{folder, {"cpu", "memory", "pids", "io"}};
  Result<Cgroup> opened = Cgroup::open({{&hierarchy, folder}});
  Cgroup& group = *opened;
  EffectiveLimits limits = v2->limits(group);
  expect(limits.cpu_millis == 1500, "cpu.max is read back");
  expect(limits.memory_bytes == 536870912, "memory.max is read back");
  expect(limits.pids == 64, "pids.max is read back");
  expect(limits.disk_iops == 200, "io.max is read back");
  expect(v2->usage(group).cpu_us == 123456, "cpu.stat is read");
  expect(v2->usage(group).memory_peak_bytes == 1048576, "memory.peak is read");
  expect(v2->oom_kills(group) == 3, "memory.events tells oom_kill and not oom");
  put("cpu.max", "max 100000\n");
  put("memory.max", "max\n");
  put("io.max", "");
  limits = v2->limits(group);
  expect(!limits.cpu_millis && !limits.memory_bytes && !limits.disk_iops, "max is no limit");
  // Applying writes each file whole; an optional one that is missing is no failure, any other is.
  expect(static_cast<bool>(group.apply(v2->cpu_settings(250))), "cpu.max is written");
  // A plain file keeps the tail of what was longer; cgroupfs replaces the value.
  expect(read_file(AT_FDCWD, folder + "/cpu.max")->starts_with("25000 100000"), "cpu.max holds what was written");
  expect(static_cast<bool>(group.apply({{"memory", "memory.swap.max", "0", true}})), "swap accounting may be missing");
  expect(!group.apply({{"memory", "memory.none", "0"}}), "another missing file is a failure");
  Result<void> missing = group.apply({{"rdma", "rdma.max", "0"}});
  expect(!missing && missing.error().code == std::string("HOST_UNSUITABLE"), "a missing controller is named");
}

void v1_readings(const std::string& folder) {
  auto put = [&](const char* name, const char* content) { (void)make_file(folder + "/" + name, content, 0644); };
  put("memory.limit_in_bytes", "9223372036854771712\n");
  put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  put("cpu.cfs_quota_us", "-1\n");
  put("cpu.cfs_period_us", "100000\n");
  put("cpuacct.usage", "5000000\n");
  auto v1 = cgroup_v1();
  Hierarchy hierarchy{folder, {"cpu", "cpuacct", "memory"}};
  Result<Cgroup> opened = Cgroup::open({{&hierarchy, folder}});
  Cgroup& group = *opened;
  EffectiveLimits limits = v1->limits(group);
  expect(!limits.memory_bytes && !limits.cpu_millis, "v1's words for no limit are no limit");
  expect(v1->oom_kills(group) == 2, "memory.oom_control is read");
  expect(v1->usage(group).cpu_us == 5000, "cpuacct.usage is nanoseconds");
}

}  // namespace

int main(int, char** values) {
  const std::string folder = values[1];
  v1_settings();
  v2_settings();
  v2_readings(folder);
  v1_readings(folder);
  return failures == 0 ? 0 : 1;
}
