// dsec-tool: the sandbox's socket from a shell. Static, so that every image can run it.
#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "tool/arguments.h"
#include "tool/commands.h"
#include "tool/help.h"
#include "tool/output.h"

namespace dsec::tool {
namespace {

struct Command {
  const char* name;
  int (*run)(const Words&);
};

constexpr Command kCommands[] = {
    {"api-call", api_call}, {"exec", exec},   {"list", list},       {"memory", memory},   {"message", message},
    {"step", step},         {"reward", reward}, {"logits", logits}, {"context", context}, {"observe", observe},
};

void print(int descriptor, const std::string& text) { (void)!::write(descriptor, text.data(), text.size()); }

int run(const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "help") {
    print(STDOUT_FILENO, kHelp);
    return words.empty() ? kUsage : kDone;
  }
  const Words rest(words.begin() + 1, words.end());
  for (const std::string& word : rest) {
    if (word == "--") break;
    if (word != "--help") continue;
    print(STDOUT_FILENO, kHelp);
    return kDone;
  }
  for (const Command& command : kCommands) {
    if (words[0] != command.name) continue;
    try {
      return command.run(rest);
    } catch (const UsageError& error) {
      print(STDERR_FILENO, "dsec-tool " + words[0] + ": " + error.what() + "\n");
      return kUsage;
    } catch (const std::exception& error) {
      print(STDERR_FILENO, "dsec-tool " + words[0] + ": the channel's answer is not understood: " + error.what() + "\n");
      return kUnavailable;
    }
  }
  print(STDERR_FILENO, "dsec-tool: " + words[0].substr(0, 80) + " is not a command; see dsec-tool --help\n");
  return kUsage;
}

}  // namespace
}  // namespace dsec::tool

int main(int count, char** words) {
  return dsec::tool::run(std::vector<std::string>(words + (count > 0 ? 1 : 0), words + count));
}
