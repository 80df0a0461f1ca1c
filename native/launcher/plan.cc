#include "launcher/plan.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dsec {
namespace {

// Keeps the order of the environment as it was given.
using Json = nlohmann::ordered_json;

Error invalid(std::string what) { return Error{"plan", std::move(what), 0, "INVALID_REQUEST"}; }

bool is_id(const std::string& id) {
  if (id.empty() || id.size() > 64) return false;
  return id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

// One message carries the listening sockets together with the streams and the root: see message.cc.
constexpr size_t kLoopbackPorts = 4;

Result<std::vector<uint16_t>> read_ports(const Json& json) {
  std::vector<uint16_t> ports;
  for (const Json& item : json) {
    const int64_t port = item.get<int64_t>();
    if (port < 1 || port > UINT16_MAX) return invalid("loopbackPorts hold " + std::to_string(port) + ", which is no port");
    ports.push_back(static_cast<uint16_t>(port));
    if (std::count(ports.begin(), ports.end(), ports.back()) > 1) {
      return invalid("loopbackPorts hold " + std::to_string(port) + " twice");
    }
  }
  if (ports.size() > kLoopbackPorts) return invalid("loopbackPorts are more than 4");
  return ports;
}

// The kernel's strings end at a NUL; what comes after one would be lost without a word.
bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

Result<Plan> read(const Json& json) {
  Plan plan;
  json.at("id").get_to(plan.id);
  if (!is_id(plan.id)) return invalid("id \"" + plan.id.substr(0, 64) + "\" is not [a-z0-9_]{1,64}");
  const Json& image = json.at("image");
  if (image.at("kind") == "erofs") {
    image.at("path").get_to(plan.erofs_path);
    if (plan.erofs_path.empty()) return invalid("image.path is empty");
  } else if (image.at("kind") != "host") {
    return invalid("image.kind is neither host nor erofs");
  }
  json.at("argv").get_to(plan.argv);
  if (plan.argv.empty()) return invalid("argv is empty");
  for (const std::string& argument : plan.argv) {
    if (has_nul(argument)) return invalid("argv holds a NUL byte");
  }
  for (const auto& [name, value] : json.at("env").items()) {
    const std::string text = value.get<std::string>();
    if (name.empty() || has_nul(name) || has_nul(text) || name.find('=') != std::string::npos) {
      return invalid("env holds a name that is empty or has '=', or a NUL byte");
    }
    plan.environment.push_back(name + "=" + text);
  }
  json.at("workingDirectory").get_to(plan.working_directory);
  if (!json.at("stdinPath").is_null()) json.at("stdinPath").get_to(plan.stdin_path);
  json.at("hostname").get_to(plan.hostname);
  if (plan.hostname.size() > 64) return invalid("hostname is longer than 64 bytes");
  for (const Json& mount : json.at("mounts")) {
    plan.mounts.push_back({mount.at("source").get<std::string>(), mount.at("target").get<std::string>()});
    if (has_nul(plan.mounts.back().source) || has_nul(plan.mounts.back().target)) return invalid("mounts hold a NUL byte");
  }
  if (json.contains("loopbackPorts")) {
    TRY_ASSIGN(ports, read_ports(json.at("loopbackPorts")));
    plan.loopback_ports = std::move(ports);
  }
  if (has_nul(plan.working_directory) || has_nul(plan.hostname) || has_nul(plan.stdin_path) || has_nul(plan.erofs_path)) {
    return invalid("a path or name holds a NUL byte");
  }
  const Json& limits = json.at("limits");
  limits.at("cpuMillis").get_to(plan.limits.cpu_millis);
  limits.at("memoryBytes").get_to(plan.limits.memory_bytes);
  limits.at("pids").get_to(plan.limits.pids);
  limits.at("diskIops").get_to(plan.limits.disk_iops);
  limits.at("diskBytes").get_to(plan.limits.disk_bytes);
  json.at("timeoutMs").get_to(plan.timeout_ms);
  // 10 thousandths of a core are 1 ms in a period of 100 ms, the least quota that the kernel takes.
  if (plan.limits.cpu_millis < 10) return invalid("limits.cpuMillis is less than 10");
  if (plan.limits.memory_bytes < 1) return invalid("limits.memoryBytes is less than 1");
  if (plan.limits.pids < 2) return invalid("limits.pids is less than 2: init is one");
  if (plan.limits.disk_iops < 0 || plan.limits.disk_bytes < 0) return invalid("limits on the disk are negative");
  if (plan.timeout_ms < 1) return invalid("timeoutMs is less than 1");
  return plan;
}

}  // namespace

Result<Plan> parse_plan(std::string_view text) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return invalid(error.what());
  }
}

}  // namespace dsec
