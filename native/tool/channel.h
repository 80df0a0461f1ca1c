// One HTTP/1.1 request over the sandbox's Unix socket.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dsec::tool {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Answer {
  int status = 0;
  // Names in lower case.
  Headers headers;
  std::string body;

  std::string header(const std::string& name) const;
};

// Sends one request on a connection of its own and reads the whole answer. `path` is escaped already. The socket's path is
// DSEC_SOCKET, or /run/dsec/tool.sock. Fails where nobody listens there or what comes back is no HTTP.
Result<Answer> send_request(const std::string& method, const std::string& path, const Headers& headers = {},
                            const std::string& body = {});

// A name as one segment of a path: every byte but letters, digits and -._~ is escaped (RFC 3986 section 2.3).
std::string path_segment(const std::string& name);

}  // namespace dsec::tool
