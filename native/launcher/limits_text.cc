#include "launcher/limits_text.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>

namespace dsec {
namespace {

using Processors = std::vector<unsigned>;

// "name\t: value" in the part of cpuinfo about one processor, or nothing.
std::string field(const std::string& part, const std::string& name) {
  std::stringstream lines(part);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1) != name) continue;
    return colon + 2 <= line.size() ? line.substr(colon + 2) : "";
  }
  return {};
}

std::string with_field(const std::string& part, const std::string& name, size_t value) {
  std::stringstream lines(part);
  std::string changed;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    const bool is_it = colon != std::string::npos && line.starts_with(name + "\t");
    changed += (is_it ? line.substr(0, colon + 2) + std::to_string(value) : line) + "\n";
  }
  return changed;
}

}  // namespace

std::string meminfo_within(const HostTexts& host, int64_t memory_bytes) {
  std::stringstream lines(host.meminfo);
  std::string text;
  int64_t total = memory_bytes / 1024;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(0, colon);
    int64_t value = std::atoll(line.c_str() + colon + 1);
    if (name == "MemTotal") total = std::min(total, value);
    if (name == "MemTotal" || name == "MemFree" || name == "MemAvailable" || name == "CommitLimit") {
      value = total;
    } else if (name != "VmallocTotal" && name != "Hugepagesize") {
      value = 0;
    }
    char row[128];
    std::snprintf(row, sizeof row, "%-15s %8lld%s\n", (name + ":").c_str(), static_cast<long long>(value),
                  line.ends_with(" kB") ? " kB" : "");
    text += row;
  }
  return text;
}

std::string cpuinfo_of(const HostTexts& host, const Processors& processors) {
  std::map<unsigned, std::string> parts;
  for (size_t start = 0; start < host.cpuinfo.size();) {
    size_t end = host.cpuinfo.find("\n\n", start);
    end = end == std::string::npos ? host.cpuinfo.size() : end + 1;
    std::string part = host.cpuinfo.substr(start, end - start);
    const std::string number = field(part, "processor");
    const unsigned value = static_cast<unsigned>(std::atoi(number.c_str()));
    // What is about the whole machine (a serial number, on some) has no such line.
    if (!number.empty() && std::binary_search(processors.begin(), processors.end(), value)) parts[value] = std::move(part);
    start = end + 1;
  }
  std::map<std::string, size_t> siblings;
  std::map<std::string, std::set<std::string>> cores;
  for (const auto& [number, part] : parts) {
    const std::string package = field(part, "physical id");
    siblings[package]++;
    cores[package].insert(field(part, "core id"));
  }
  std::string text;
  for (const auto& [number, part] : parts) {
    const std::string package = field(part, "physical id");
    text += with_field(with_field(part, "siblings", siblings[package]), "cpu cores", cores[package].size()) + "\n";
  }
  return text;
}

std::string stat_of(const HostTexts& host, const Processors& processors) {
  const std::string times = " 0 0 0 0 0 0 0 0 0 0\n";
  std::string text = "cpu " + times;
  for (unsigned number : processors) text += "cpu" + std::to_string(number) + times;
  const size_t boot = host.stat.find("\nbtime ");
  const std::string boot_time = boot == std::string::npos ? "" : host.stat.substr(boot + 1, host.stat.find('\n', boot + 1) - boot);
  return text + "intr 0\nctxt 0\n" + boot_time + "processes 0\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n";
}

}  // namespace dsec
