// Datagrams with descriptors over a SEQPACKET socket: JSON text and SCM_RIGHTS (unix(7)).
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

struct Message {
  nlohmann::json body;
  std::vector<Fd> descriptors;
};

// Nothing when the other side is gone.
Result<std::optional<Message>> receive_message(int socket);

Result<void> send_message(int socket, const nlohmann::json& body, const std::vector<int>& descriptors = {});

}  // namespace dsec
