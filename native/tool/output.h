// What a command prints, and the exit code it ends with.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "tool/channel.h"

namespace dsec::tool {

enum Exit : int {
  kDone = 0,
  // The tool or the upstream answered, and says that it failed.
  kFailed = 1,
  kUsage = 2,
  // Refused before anything was done: policy, budget, input, a condition that does not hold.
  kRefused = 3,
  kTimedOut = 4,
  // What was asked did not answer, or the executor cannot now.
  kUnavailable = 5,
  // Nobody listens on the socket.
  kNoChannel = 6,
  kNotThere = 7,
};

struct Destination {
  // Standard output where there is none.
  std::optional<std::string> file;
  // Print the channel's answers and errors as they came.
  bool json = false;
};

// Writes the bytes, and with `line` an end of line after them on a terminal's behalf. Returns the exit code.
int write_out(const Destination& to, const std::string& bytes, bool line);

// What a tool wrote to its standard error goes to ours.
void tell_errors(const std::string& text);

// Says on standard error why the channel refused, and returns the exit code for it.
int tell_refusal(const Destination& to, const Answer& answer);
int tell_no_channel(const Error& error);

// The JSON text of a member of an object, exactly as it stands there; empty where there is none.
std::string raw_member(const std::string& object, const std::string& name);

// Base64 of RFC 4648 section 4, with padding.
std::string to_base64(const std::string& bytes);
std::string from_base64(const std::string& text);

}  // namespace dsec::tool
