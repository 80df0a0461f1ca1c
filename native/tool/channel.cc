#include "tool/channel.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/fd.h"

namespace dsec::tool {
namespace {

constexpr size_t kHeadBytesMax = 64 * 1024;

Error no_http(const std::string& why) { return Error{"the answer is not HTTP/1.1", why}; }

Result<Fd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Error{"DSEC_SOCKET is too long", path};
  std::copy(path.begin(), path.end(), address.sun_path);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return failed("socket");
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return failed("connect", path);
  return socket;
}

// What was written before the other side closed is lost to nobody: its answer tells why.
void write_all(int socket, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t count = ::send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    at += static_cast<size_t>(count);
  }
}

class Reader {
 public:
  explicit Reader(int socket) : socket_(socket) {}

  // Reads more; false at the end.
  Result<bool> more() {
    char part[64 * 1024];
    for (;;) {
      const ssize_t count = ::read(socket_, part, sizeof part);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return failed("read", "the channel's answer");
      pending.append(part, static_cast<size_t>(count));
      return count > 0;
    }
  }

  // Up to the line end CR LF, which is left out.
  Result<std::string> line() {
    for (;;) {
      const size_t end = pending.find("\r\n");
      if (end != std::string::npos) {
        std::string line = pending.substr(0, end);
        pending.erase(0, end + 2);
        return line;
      }
      if (pending.size() > kHeadBytesMax) return no_http("a line has no end");
      TRY_ASSIGN(grown, more());
      if (!grown) return no_http("it ends within its head");
    }
  }

  Result<std::string> exactly(size_t size) {
    while (pending.size() < size) {
      TRY_ASSIGN(grown, more());
      if (!grown) return no_http("it ends within its body");
    }
    std::string bytes = pending.substr(0, size);
    pending.erase(0, size);
    return bytes;
  }

  std::string pending;

 private:
  int socket_;
};

Result<std::string> read_chunks(Reader& reader) {
  std::string body;
  for (;;) {
    TRY_ASSIGN(size_line, reader.line());
    char* end = nullptr;
    const unsigned long size = std::strtoul(size_line.c_str(), &end, 16);
    if (end == size_line.c_str()) return no_http("a chunk has no size");
    if (size == 0) return body;
    TRY_ASSIGN(chunk, reader.exactly(size + 2));
    body.append(chunk, 0, size);
  }
}

Result<Answer> read_answer(int socket, const std::string& method) {
  Reader reader(socket);
  Answer answer;
  do {
    TRY_ASSIGN(status_line, reader.line());
    if (status_line.rfind("HTTP/1.", 0) != 0 || status_line.size() < 12) return no_http(status_line.substr(0, 80));
    answer.status = std::atoi(status_line.c_str() + 9);
    answer.headers.clear();
    for (;;) {
      TRY_ASSIGN(line, reader.line());
      if (line.empty()) break;
      const size_t colon = line.find(':');
      if (colon == std::string::npos) return no_http("a header field has no colon");
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      const size_t start = line.find_first_not_of(" \t", colon + 1);
      answer.headers.emplace_back(name, start == std::string::npos ? "" : line.substr(start));
    }
  } while (answer.status < 200);  // interim answers (RFC 9110 section 15.2)

  if (method == "HEAD" || answer.status == 204 || answer.status == 304) return answer;
  if (answer.header("transfer-encoding") == "chunked") {
    TRY_ASSIGN(body, read_chunks(reader));
    answer.body = std::move(body);
  } else if (const std::string length = answer.header("content-length"); !length.empty()) {
    TRY_ASSIGN(body, reader.exactly(std::strtoul(length.c_str(), nullptr, 10)));
    answer.body = std::move(body);
  } else {
    for (;;) {
      TRY_ASSIGN(grown, reader.more());
      if (!grown) break;
    }
    answer.body = std::move(reader.pending);
  }
  return answer;
}

}  // namespace

std::string Answer::header(const std::string& name) const {
  for (const auto& [given, value] : headers) {
    if (given == name) return value;
  }
  return {};
}

Result<Answer> send_request(const std::string& method, const std::string& path, const Headers& headers,
                            const std::string& body) {
  const char* named = std::getenv("DSEC_SOCKET");
  TRY_ASSIGN(socket, connect_to(named != nullptr && *named != '\0' ? named : "/run/dsec/tool.sock"));
  std::string request = method + " " + path + " HTTP/1.1\r\nhost: dsec\r\nconnection: close\r\n";
  for (const auto& [name, value] : headers) request += name + ": " + value + "\r\n";
  if (!body.empty() || method == "POST" || method == "PUT") {
    request += "content-type: application/json\r\ncontent-length: " + std::to_string(body.size()) + "\r\n";
  }
  request += "\r\n";
  write_all(socket.get(), request + body);
  return read_answer(socket.get(), method);
}

std::string path_segment(const std::string& name) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string escaped;
  for (const unsigned char byte : name) {
    if (std::isalnum(byte) || byte == '-' || byte == '.' || byte == '_' || byte == '~') {
      escaped += static_cast<char>(byte);
    } else {
      escaped += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return escaped;
}

}  // namespace dsec::tool
