// What the agent keeps, tells and is told: memory, messages, plan steps, rewards, tokens, context, observations.
#include <nlohmann/json.hpp>

#include "tool/arguments.h"
#include "tool/channel.h"
#include "tool/commands.h"
#include "tool/output.h"

namespace dsec::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string quoted(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    throw UsageError("an argument is not UTF-8 text");
  }
}

// A JSON value as it was written; the channel judges it.
std::string json_value(const Arguments& arguments, const std::string& given) {
  const std::string text = text_or_file(given);
  return arguments.flag("string") ? quoted(text) : text;
}

class Query {
 public:
  void add(const std::string& name, const std::string& value) {
    text_ += (text_.empty() ? "?" : "&") + name + "=" + path_segment(value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Sends, and prints the answer where it is a success.
int send_and_print(const Destination& to, const std::string& method, const std::string& path, const Headers& headers,
                   const std::string& body, bool print) {
  const Result<Answer> answer = send_request(method, path, headers, body);
  if (!answer) return tell_no_channel(answer.error());
  if ((*answer).status >= 300) return tell_refusal(to, *answer);
  return print || (to.json && !(*answer).body.empty()) ? write_out(to, (*answer).body, true) : kDone;
}

// Sends, and prints one member of the answer, or the whole of it with --json.
int send_and_print_member(const Destination& to, const std::string& path, const std::string& body, const std::string& member) {
  const Result<Answer> answer = send_request("POST", path, {}, body);
  if (!answer) return tell_no_channel(answer.error());
  if ((*answer).status >= 300) return tell_refusal(to, *answer);
  if (to.json) return write_out(to, (*answer).body, true);
  const Json value = Json::parse((*answer).body)[member];
  return write_out(to, value.is_string() ? value.get<std::string>() : value.dump(), true);
}

// "name=number" options as the members of an object.
Json numbers(const std::vector<std::string>& given) {
  Json object = Json::object();
  for (const std::string& text : given) {
    const size_t equals = text.find('=');
    const Json value = equals == std::string::npos ? Json() : Json::parse(text.substr(equals + 1), nullptr, false);
    if (!value.is_number()) throw UsageError("\"" + text + "\" is not NAME=NUMBER");
    object[text.substr(0, equals)] = value;
  }
  return object;
}

}  // namespace

int memory(const Words& words) {
  const Arguments arguments(words, {"namespace", "ttl-ms", "if-version", "prefix", "cursor", "limit"},
                            {"json", "string", "if-absent"});
  const Destination to{{}, arguments.flag("json")};
  const std::string action = arguments.word(0, "get, set, delete or list");
  Query query;
  if (const auto name = arguments.value("namespace")) query.add("namespace", *name);
  if (action == "list") {
    arguments.at_most(1);
    for (const char* name : {"prefix", "cursor", "limit"}) {
      if (const auto value = arguments.value(name)) query.add(name, *value);
    }
    const Result<Answer> answer = send_request("GET", "/v1/memory" + query.text());
    if (!answer) return tell_no_channel(answer.error());
    if ((*answer).status != 200) return tell_refusal(to, *answer);
    if (to.json) return write_out(to, (*answer).body, true);
    std::string text;
    const Json body = Json::parse((*answer).body);
  for (const Json& item : body["items"]) text += item["key"].get<std::string>() + "\n";
    return write_out(to, text, false);
  }
  if (action != "get" && action != "set" && action != "delete") {
    throw UsageError("memory " + action + " is not known; get, set, delete or list");
  }
  const std::string path = "/v1/memory/" + path_segment(arguments.word(1, "the key"));
  Headers headers = {{"dsec-origin", "dsec-tool memory " + action}};
  if (const auto version = arguments.number("if-version", 0)) headers.emplace_back("if-match", "\"" + std::to_string(*version) + "\"");
  if (arguments.flag("if-absent")) headers.emplace_back("if-none-match", "*");
  if (action == "get") {
    arguments.at_most(2);
    return send_and_print(to, "GET", path + query.text(), {headers[0]}, {}, true);
  }
  if (action == "set") {
    arguments.at_most(3);
    if (const auto ttl = arguments.value("ttl-ms")) query.add("ttl_ms", *ttl);
    const std::string value = json_value(arguments, arguments.word(2, "the value (JSON)"));
    return send_and_print(to, "PUT", path + query.text(), headers, value, false);
  }
  arguments.at_most(2);
  return send_and_print(to, "DELETE", path + query.text(), headers, {}, false);
}

int message(const Words& words) {
  const Arguments arguments(words, {"wait", "limit", "after"}, {"json", "string", "ack"});
  const Destination to{{}, arguments.flag("json")};
  const std::string action = arguments.word(0, "send or receive");
  const std::string path = "/v1/messages/" + path_segment(arguments.word(1, "the channel"));
  if (action == "send") {
    arguments.at_most(3);
    return send_and_print_member(to, path, json_value(arguments, arguments.word(2, "the message (JSON)")), "id");
  }
  if (action != "receive") throw UsageError("message " + action + " is not known; send or receive");
  arguments.at_most(2);
  Query query;
  if (const auto wait_ms = arguments.number("wait", 0)) query.add("wait_ms", std::to_string(*wait_ms));
  if (const auto limit = arguments.number("limit", 1)) query.add("limit", std::to_string(*limit));
  if (const auto after = arguments.number("after", 0)) query.add("after", std::to_string(*after));
  const Result<Answer> answer = send_request("GET", path + query.text());
  if (!answer) return tell_no_channel(answer.error());
  if ((*answer).status != 200) return tell_refusal(to, *answer);
  const Json items = Json::parse((*answer).body)["items"];
  std::string text;
  for (const Json& item : items) text += item["body"].dump() + "\n";
  const int written = to.json ? write_out(to, (*answer).body, true) : write_out(to, text, false);
  if (written != kDone || !arguments.flag("ack") || items.empty()) return written;
  // Only what was printed is acknowledged.
  const std::string through = Json{{"through", items.back()["id"]}}.dump();
  return send_and_print({}, "POST", path + "/ack", {}, through, false);
}

int step(const Words& words) {
  const Arguments arguments(words, {"state", "status", "detail"}, {"json"});
  const Destination to{{}, arguments.flag("json")};
  arguments.at_most(2);
  const std::string action = arguments.word(0, "begin or end");
  if (action == "begin") {
    std::string body = "{\"name\":" + quoted(arguments.word(1, "the step's name"));
    if (const auto state = arguments.value("state")) body += ",\"state\":" + text_or_file(*state);
    return send_and_print_member(to, "/v1/steps", body + "}", "step");
  }
  if (action != "end") throw UsageError("step " + action + " is not known; begin or end");
  const std::string number = arguments.word(1, "the step's number");
  std::string body = "{\"status\":" + quoted(arguments.value("status").value_or("succeeded"));
  if (const auto detail = arguments.value("detail")) body += ",\"detail\":" + text_or_file(*detail);
  return send_and_print_member(to, "/v1/steps/" + path_segment(number) + "/end", body + "}", "status");
}

int reward(const Words& words) {
  const Arguments arguments(words, {"weight", "input"}, {"json"});
  const Destination to{{}, arguments.flag("json")};
  if (const auto input = arguments.value("input")) {
    arguments.at_most(0);
    return send_and_print_member(to, "/v1/rewards", text_or_file(*input), "sum");
  }
  if (arguments.words().empty()) throw UsageError("no component; write NAME=NUMBER");
  const Json body = {{"components", numbers(arguments.words())}, {"weights", numbers(arguments.all("weight"))}};
  return send_and_print_member(to, "/v1/rewards", body.dump(), "sum");
}

int logits(const Words& words) {
  const Arguments arguments(words, {"input"}, {"json"});
  arguments.at_most(0);
  const Destination to{{}, arguments.flag("json")};
  return send_and_print_member(to, "/v1/logits", text_or_file(arguments.value("input").value_or("-")), "seq");
}

int context(const Words& words) {
  const Arguments arguments(words, {"input"}, {"json"});
  arguments.at_most(0);
  const Destination to{{}, arguments.flag("json")};
  const std::string value = text_or_file(arguments.value("input").value_or("-"));
  return send_and_print_member(to, "/v1/context", "{\"context\":" + value + "}", "digest");
}

int observe(const Words& words) {
  const Arguments arguments(words, {"wait"}, {"json"});
  arguments.at_most(0);
  const Destination to{{}, arguments.flag("json")};
  Query query;
  if (const auto wait_ms = arguments.number("wait", 0)) query.add("wait_ms", std::to_string(*wait_ms));
  const Result<Answer> answer = send_request("GET", "/v1/observations" + query.text());
  if (!answer) return tell_no_channel(answer.error());
  if ((*answer).status != 200) return tell_refusal(to, *answer);
  if (to.json) return write_out(to, (*answer).body, true);
  std::string text;
  const Json body = Json::parse((*answer).body);
  for (const Json& item : body["items"]) text += item["content"].dump() + "\n";
  return write_out(to, text, false);
}

}  // namespace dsec::tool
