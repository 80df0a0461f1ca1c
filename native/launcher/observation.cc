#include "launcher/observation.h"

#include <fcntl.h>

#include <sstream>

#include "base/files.h"

namespace dsec {
namespace {

using Json = nlohmann::json;

constexpr const char* kNamespaces[] = {"pid", "net", "mnt", "uts", "ipc", "user", "cgroup"};

// The value of "Name:\tvalue" in proc_pid_status(5).
std::string status_field(const std::string& status, const std::string& name) {
  const std::string start = "\n" + name + ":";
  size_t at = status.find(start);
  if (at == std::string::npos) return {};
  at = status.find_first_not_of(" \t", at + start.size());
  return status.substr(at, status.find('\n', at) - at);
}

int64_t number(const std::string& text) { return text.empty() ? -1 : std::atoll(text.c_str()); }

// Names before the colon in proc_net_dev; the first two lines are headings.
Json interface_names(const std::string& content) {
  Json names = Json::array();
  std::stringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    size_t start = line.find_first_not_of(' ');
    names.push_back(line.substr(start, colon - start));
  }
  return names;
}

// Type of the file system that the process has as its root, from proc_pid_mountinfo(5).
std::string root_filesystem(const std::string& mountinfo) {
  std::stringstream lines(mountinfo);
  std::string type;
  for (std::string line; std::getline(lines, line);) {
    std::stringstream fields(line);
    std::string skip, mount_point;
    fields >> skip >> skip >> skip >> skip >> mount_point;
    size_t dash = line.find(" - ");
    // Of several mounts on one point the last covers the others.
    if (mount_point == "/" && dash != std::string::npos) type = line.substr(dash + 3, line.find(' ', dash + 3) - dash - 3);
  }
  return type;
}

Json or_null(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

Result<Json> observe(pid_t init, const CgroupInterface& interface, const Cgroup& cgroup) {
  TRY_ASSIGN(process, open_at(AT_FDCWD, "/proc/" + std::to_string(init), O_RDONLY | O_DIRECTORY));
  Json namespaces = Json::object(), unshared = Json::array();
  for (const char* name : kNamespaces) {
    TRY_ASSIGN(inside, read_link(process.get(), std::string("ns/") + name));
    TRY_ASSIGN(ours, read_link(AT_FDCWD, std::string("/proc/self/ns/") + name));
    namespaces[name] = inside;
    if (inside != ours) unshared.push_back(name);
  }
  TRY_ASSIGN(status, read_file(process.get(), "status"));
  TRY_ASSIGN(uid_map, read_file(process.get(), "uid_map"));
  TRY_ASSIGN(devices, read_file(process.get(), "net/dev"));
  TRY_ASSIGN(mountinfo, read_file(process.get(), "mountinfo"));
  int64_t inside_first = 0, host_first = 0, length = 0;
  std::stringstream(uid_map) >> inside_first >> host_first >> length;
  const EffectiveLimits limits = interface.limits(cgroup);
  return Json{
      {"namespaces", namespaces},
      {"unshared", unshared},
      {"seccompMode", number(status_field(status, "Seccomp"))},
      {"seccompFilters", number(status_field(status, "Seccomp_filters"))},
      {"noNewPrivs", status_field(status, "NoNewPrivs") == "1"},
      {"capabilities",
       {{"effective", status_field(status, "CapEff")},
        {"permitted", status_field(status, "CapPrm")},
        {"inheritable", status_field(status, "CapInh")},
        {"bounding", status_field(status, "CapBnd")},
        {"ambient", status_field(status, "CapAmb")}}},
      {"uidMap", {{"hostFirst", host_first}, {"length", length}}},
      {"cgroup", interface.version()},
      {"limits",
       {{"cpuMillis", or_null(limits.cpu_millis)},
        {"memoryBytes", or_null(limits.memory_bytes)},
        {"pids", or_null(limits.pids)},
        {"diskIops", or_null(limits.disk_iops)}}},
      {"interfaces", interface_names(devices)},
      {"rootFilesystem", root_filesystem(mountinfo)},
  };
}

}  // namespace dsec
