#include "tool/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/fd.h"

namespace dsec::tool {
namespace {

using Json = nlohmann::json;

bool write_all(int descriptor, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t count = ::write(descriptor, bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    at += static_cast<size_t>(count);
  }
  return true;
}

void say(const std::string& text) { (void)write_all(STDERR_FILENO, "dsec-tool: " + text + "\n"); }

// The end of the JSON value that begins here. The text is valid JSON: the channel made it.
size_t value_end(const std::string& text, size_t at) {
  int depth = 0;
  bool in_string = false;
  for (; at < text.size(); at++) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') at++;
      else if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    else if (c == '{' || c == '[') depth++;
    else if ((c == '}' || c == ']' || c == ',') && depth == 0) return at;
    else if (c == '}' || c == ']') depth--;
  }
  return at;
}

int exit_for(int status, const std::string& code) {
  if (code == "MEMORY_NOT_FOUND") return kNotThere;
  if (status == 504) return kTimedOut;
  return status >= 500 ? kUnavailable : kRefused;
}

}  // namespace

int write_out(const Destination& to, const std::string& bytes, bool line) {
  const std::string whole = line ? bytes + "\n" : bytes;
  if (!to.file) {
    if (write_all(STDOUT_FILENO, whole)) return kDone;
    say(std::string("cannot write to standard output: ") + std::strerror(errno));
    return kUnavailable;
  }
  const Fd file(::open(to.file->c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file && write_all(file.get(), bytes)) return kDone;
  say("cannot write " + *to.file + ": " + std::strerror(errno));
  return kUnavailable;
}

void tell_errors(const std::string& text) { (void)write_all(STDERR_FILENO, text); }

int tell_refusal(const Destination& to, const Answer& answer) {
  const Json body = Json::parse(answer.body, nullptr, false);
  if (!body.is_object() || !body.contains("error")) {
    say("the channel answered " + std::to_string(answer.status));
    return exit_for(answer.status, "");
  }
  const std::string code = body["error"].value("code", "");
  if (to.json) (void)write_all(STDERR_FILENO, answer.body + "\n");
  else say(code + ": " + body["error"].value("message", ""));
  return exit_for(answer.status, code);
}

int tell_no_channel(const Error& error) {
  say(error.text() + "; is this program running inside a sandbox?");
  return kNoChannel;
}

std::string raw_member(const std::string& object, const std::string& name) {
  const std::string wanted = "\"" + name + "\"";
  for (size_t at = 1; at < object.size() && object[at] != '}';) {
    const size_t colon = value_end(object, at);  // to the comma: name, colon and value
    if (object.compare(at, wanted.size(), wanted) == 0) {
      const size_t start = object.find(':', at + wanted.size()) + 1;
      return object.substr(start, colon - start);
    }
    at = colon + 1;
  }
  return {};
}

std::string to_base64(const std::string& bytes) {
  static constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; i++) {
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (size_t i = 0; i < 4; i++) text += i <= count ? kAlphabet[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::string from_base64(const std::string& text) {
  std::string bytes;
  uint32_t group = 0;
  int bits = 0;
  for (const char c : text) {
    uint32_t digit;
    if (c >= 'A' && c <= 'Z') digit = static_cast<uint32_t>(c - 'A');
    else if (c >= 'a' && c <= 'z') digit = static_cast<uint32_t>(c - 'a' + 26);
    else if (c >= '0' && c <= '9') digit = static_cast<uint32_t>(c - '0' + 52);
    else if (c == '+') digit = 62;
    else if (c == '/') digit = 63;
    else break;
    group = group << 6 | digit;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes += static_cast<char>(group >> bits & 255);
    }
  }
  return bytes;
}

}  // namespace dsec::tool
