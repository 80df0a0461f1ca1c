#include "launcher/listeners.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <string>

#include "base/files.h"

namespace dsec {
namespace {

constexpr int kBacklog = 128;

Result<Fd> listen_at(uint16_t port) {
  const std::string name = "127.0.0.1:" + std::to_string(port);
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return failed("socket", name);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return failed("bind", name);
  if (::listen(socket.get(), kBacklog) != 0) return failed("listen", name);
  return socket;
}

}  // namespace

Result<std::vector<Fd>> listen_on_loopback(int network_namespace, const std::vector<uint16_t>& ports) {
  std::vector<Fd> sockets;
  if (ports.empty()) return sockets;
  TRY_ASSIGN(ours, open_at(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY));
  if (::setns(network_namespace, CLONE_NEWNET) != 0) return failed("setns", "the sandbox's network namespace");
  Result<void> made = [&]() -> Result<void> {
    for (uint16_t port : ports) {
      TRY_ASSIGN(socket, listen_at(port));
      sockets.push_back(std::move(socket));
    }
    return {};
  }();
  if (::setns(ours.get(), CLONE_NEWNET) != 0) return failed("setns", "the launcher's network namespace");
  if (!made) return std::move(made).error();
  return sockets;
}

}  // namespace dsec
