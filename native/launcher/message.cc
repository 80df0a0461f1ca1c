#include "launcher/message.h"

#include <sys/socket.h>

namespace dsec {
namespace {

constexpr size_t kMessageBytes = 128 * 1024;
constexpr size_t kDescriptors = 8;

}  // namespace

Result<std::optional<Message>> receive_message(int socket) {
  std::string text(kMessageBytes, '\0');
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))];
  iovec part{text.data(), text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t count;
  do {
    count = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno != ECONNRESET) return failed("recvmsg");
  if (count <= 0) return std::optional<Message>{};
  Message message;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    size_t numbers = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < numbers; i++) {
      int number;
      std::memcpy(&number, CMSG_DATA(item) + i * sizeof(int), sizeof number);
      message.descriptors.emplace_back(number);
    }
  }
  if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) return Error{"recvmsg", "a message was cut", EMSGSIZE};
  message.body = nlohmann::json::parse(text.begin(), text.begin() + count, nullptr, false);
  if (!message.body.is_object()) return Error{"recvmsg", "a message is not a JSON object", EBADMSG};
  return std::optional<Message>(std::move(message));
}

Result<void> send_message(int socket, const nlohmann::json& body, const std::vector<int>& descriptors) {
  // Names and paths of a sandbox are bytes; what is not UTF-8 in an error's text is replaced, not fatal.
  std::string text = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))] = {};
  iovec part{text.data(), text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(item), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ssize_t count;
  do {
    count = ::sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return failed("sendmsg");
  return {};
}

}  // namespace dsec
