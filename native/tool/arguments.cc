#include "tool/arguments.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/fd.h"

namespace dsec::tool {
namespace {

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string read_all(int descriptor, const std::string& what) {
  std::string content;
  char part[64 * 1024];
  for (;;) {
    const ssize_t count = ::read(descriptor, part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw UsageError("cannot read " + what + ": " + std::strerror(errno));
    if (count == 0) return content;
    content.append(part, static_cast<size_t>(count));
  }
}

}  // namespace

Arguments::Arguments(const std::vector<std::string>& given, const std::vector<std::string>& options,
                     const std::vector<std::string>& flags) {
  for (size_t at = 0; at < given.size(); at++) {
    const std::string& argument = given[at];
    if (argument == "--") {
      words_.insert(words_.end(), given.begin() + static_cast<std::ptrdiff_t>(at) + 1, given.end());
      return;
    }
    if (argument.rfind("--", 0) != 0) {
      words_.push_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (holds(flags, name) && equals == std::string::npos) {
      values_[name].push_back("");
    } else if (!holds(options, name)) {
      throw UsageError("option " + argument.substr(0, 80) + " is not known here");
    } else if (equals != std::string::npos) {
      values_[name].push_back(argument.substr(equals + 1));
    } else if (at + 1 < given.size()) {
      values_[name].push_back(given[++at]);
    } else {
      throw UsageError("option --" + name + " needs a value");
    }
  }
}

std::optional<std::string> Arguments::value(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second.back();
}

std::vector<std::string> Arguments::all(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

std::string Arguments::required(const std::string& name) const {
  const std::optional<std::string> given = value(name);
  if (!given) throw UsageError("--" + name + " is missing");
  return *given;
}

std::optional<long> Arguments::number(const std::string& name, long least) const {
  const std::optional<std::string> given = value(name);
  if (!given) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(given->c_str(), &end, 10);
  if (errno != 0 || given->empty() || *end != '\0' || number < least) {
    throw UsageError("--" + name + " is " + *given + "; it must be a whole number from " + std::to_string(least));
  }
  return number;
}

std::string Arguments::word(size_t at, const std::string& what) const {
  if (at >= words_.size()) throw UsageError(what + " is missing");
  return words_[at];
}

void Arguments::at_most(size_t count) const {
  if (words_.size() > count) throw UsageError("\"" + words_[count].substr(0, 80) + "\" is one word too many");
}

std::string text_or_file(const std::string& given) {
  if (given == "-") return file_content("-");
  return given.rfind('@', 0) == 0 ? file_content(given.substr(1)) : given;
}

std::string file_content(const std::string& path) {
  if (path == "-") return read_all(STDIN_FILENO, "standard input");
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw UsageError("cannot open " + path + ": " + std::strerror(errno));
  return read_all(file.get(), path);
}

}  // namespace dsec::tool
