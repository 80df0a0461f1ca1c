// Calls: of the agent's own, and of the task's tools.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tool/arguments.h"
#include "tool/channel.h"
#include "tool/commands.h"
#include "tool/output.h"
#include "tool/run_tool.h"

namespace dsec::tool {
namespace {

using Json = nlohmann::ordered_json;

Destination destination(const Arguments& arguments) {
  return {arguments.value("output"), arguments.flag("json")};
}

// "Name: value" (RFC 9112 section 5).
Json header_field(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0) throw UsageError("--header is \"" + text + "\"; write it 'Name: value'");
  const size_t start = text.find_first_not_of(" \t", colon + 1);
  return Json::array({text.substr(0, colon), start == std::string::npos ? "" : text.substr(start)});
}

// What a tool put out, on the caller's terms: a string as its text, anything else as JSON.
int print_answer(const Destination& to, const Answer& answer) {
  const Json facts = Json::parse(answer.body, nullptr, false);
  if (!facts.is_object()) return tell_refusal(to, answer);
  int written;
  if (to.json) {
    written = write_out(to, answer.body, true);
  } else if (facts["output"].is_string()) {
    const std::string text = facts["output"].get<std::string>();
    written = write_out(to, text, text.empty() || text.back() != '\n');
  } else {
    written = write_out(to, raw_member(answer.body, "output"), true);
  }
  if (written != kDone) return written;
  if (!facts.value("is_error", false)) return kDone;
  // Where a tool that failed put nothing out, its standard error is the output.
  const Json& call = facts["call"];
  if (!to.json && call.value("output_bytes", 0) > 0 && call.contains("stderr")) tell_errors(call["stderr"].get<std::string>());
  return kFailed;
}

}  // namespace

int api_call(const Words& words) {
  const Arguments arguments(words, {"url", "method", "header", "body", "body-file", "timeout", "retry", "output"}, {"json"});
  arguments.at_most(0);
  const Destination to = destination(arguments);
  Json call = {{"url", arguments.required("url")}, {"headers", Json::array()}};
  for (const std::string& header : arguments.all("header")) call["headers"].push_back(header_field(header));
  std::string body;
  if (arguments.flag("body") && arguments.flag("body-file")) throw UsageError("give --body or --body-file, not both");
  if (const auto given = arguments.value("body")) body = *given;
  if (const auto file = arguments.value("body-file")) body = file_content(*file);
  const bool has_body = arguments.flag("body") || arguments.flag("body-file");
  if (has_body) call["body_base64"] = to_base64(body);
  std::string method = arguments.value("method").value_or(has_body ? "POST" : "GET");
  std::transform(method.begin(), method.end(), method.begin(), [](unsigned char c) { return std::toupper(c); });
  call["method"] = method;
  if (const auto timeout_ms = arguments.number("timeout", 1)) call["timeout_ms"] = *timeout_ms;
  if (const auto tries = arguments.number("retry", 0)) {
    call["retry"] = {{"attempts", *tries + 1}, {"on", {"timeout", "status", "network"}}};
  }
  std::string text;
  try {
    text = call.dump();
  } catch (const Json::exception&) {
    throw UsageError("an argument is not UTF-8 text; send bytes with --body-file");
  }
  const Result<Answer> answer = send_request("POST", "/v1/call", {}, text);
  if (!answer) return tell_no_channel(answer.error());
  if ((*answer).status != 200) return tell_refusal(to, *answer);
  const Json facts = Json::parse((*answer).body);
  int written;
  if (to.json) {
    written = write_out(to, (*answer).body, true);
  } else if (facts.contains("body_base64")) {
    written = write_out(to, from_base64(facts["body_base64"].get<std::string>()), false);
  } else {
    written = write_out(to, facts["body"].get<std::string>(), false);
  }
  if (written != kDone) return written;
  return facts["status"].get<int>() >= 400 ? kFailed : kDone;
}

int exec(const Words& words) {
  const Arguments arguments(words, {"tool", "input", "output"}, {"json"});
  arguments.at_most(0);
  const Destination to = destination(arguments);
  const std::string tool = arguments.required("tool");
  const std::string input = text_or_file(arguments.value("input").value_or("{}"));
  // Passed on as it was written, for the channel to judge.
  const std::string body = "{\"input\":" + input + "}";
  const std::string path = "/v1/tools/" + path_segment(tool);
  Result<Answer> answer = send_request("POST", path, {}, body);
  if (!answer) return tell_no_channel(answer.error());
  if ((*answer).header("dsec-where") == "sandbox") {
    // The tool runs here, and the channel hears of its begin and its end.
    answer = send_request("POST", path + "/begin", {}, body);
    if (!answer) return tell_no_channel(answer.error());
    if ((*answer).status != 201) return tell_refusal(to, *answer);
    const std::string end = run_tool((*answer).body);
    answer = send_request("POST", path + "/end", {}, end);
    if (!answer) return tell_no_channel(answer.error());
  }
  if ((*answer).status != 200) return tell_refusal(to, *answer);
  return print_answer(to, *answer);
}

int list(const Words& words) {
  const Arguments arguments(words, {}, {"json"});
  arguments.at_most(0);
  const Destination to = destination(arguments);
  const Result<Answer> answer = send_request("GET", "/v1/tools");
  if (!answer) return tell_no_channel(answer.error());
  if ((*answer).status != 200) return tell_refusal(to, *answer);
  if (to.json) return write_out(to, (*answer).body, true);
  std::string text;
  const Json body = Json::parse((*answer).body);
  for (const Json& tool : body["items"]) {
    const std::string description = tool["description"].get<std::string>();
    text += tool["name"].get<std::string>() + "\t" + description.substr(0, description.find('\n')) + "\n";
  }
  return write_out(to, text, false);
}

}  // namespace dsec::tool
