// A command line as words and options, judged against what the command knows.
#pragma once

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace dsec::tool {

// The caller wrote something that cannot be meant; the message says what.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Arguments {
 public:
  // `options` names those that take a value and `flags` those that take none, without their dashes. `--name value`,
  // `--name=value`; after `--` everything is a word. Throws UsageError.
  Arguments(const std::vector<std::string>& given, const std::vector<std::string>& options,
            const std::vector<std::string>& flags);

  const std::vector<std::string>& words() const { return words_; }
  bool flag(const std::string& name) const { return values_.count(name) > 0; }
  // The last one given, or nothing.
  std::optional<std::string> value(const std::string& name) const;
  std::vector<std::string> all(const std::string& name) const;
  // Throws UsageError where it is missing.
  std::string required(const std::string& name) const;
  // A whole number from `least` on. Throws UsageError.
  std::optional<long> number(const std::string& name, long least) const;
  // The word at this place, called `what` where it is missing.
  std::string word(size_t at, const std::string& what) const;
  void at_most(size_t count) const;

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::vector<std::string>> values_;
};

// The text itself, the content of FILE for `@FILE`, or standard input for `-`. Throws UsageError.
std::string text_or_file(const std::string& given);
// The content of a file, or of standard input for `-`. Throws UsageError.
std::string file_content(const std::string& path);

}  // namespace dsec::tool
