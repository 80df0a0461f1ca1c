// The floor under a chain of processes: it passes bytes on and does nothing else.
//
//   relay LISTEN TARGET…   LISTEN is unix:PATH, or 0 for a port on 127.0.0.1, which it prints as a line; each TARGET is a
//                          port on 127.0.0.1
//
// For each connection that it accepts it opens one to each target. What comes on one of these goes out on the next, from
// the last back to the first; without targets it goes back to where it came from. Ends when its standard input does.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "relay: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

sockaddr_in loopback(int port) {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int listening(const std::string& where) {
  if (where.rfind("unix:", 0) == 0) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(address.sun_path, where.c_str() + 5, sizeof address.sun_path - 1);
    int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("bind " + where);
    if (::listen(socket, SOMAXCONN) != 0) die("listen");
    return socket;
  }
  sockaddr_in address = loopback(std::stoi(where));
  socklen_t size = sizeof address;
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0) die("bind " + where);
  if (::listen(socket, SOMAXCONN) != 0) die("listen");
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) die("getsockname");
  std::printf("%d\n", ntohs(address.sin_port));
  return socket;
}

// Messages are small and go one way at a time: nothing may wait for a second one. A Unix socket does not know the option.
void send_at_once(int socket) {
  int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int connected(int port) {
  sockaddr_in address = loopback(port);
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("connect");
  return socket;
}

int main(int count, char** words) {
  if (count < 2) die("usage: relay LISTEN TARGET…");
  std::signal(SIGPIPE, SIG_IGN);
  const int poll = ::epoll_create1(EPOLL_CLOEXEC);
  const auto watch = [&](int descriptor) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
    if (::epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event) != 0) die("epoll_ctl");
  };
  const int listener = listening(words[1]);
  watch(STDIN_FILENO);
  watch(listener);
  std::puts("ready");
  std::fflush(stdout);

  std::map<int, int> next;  // the descriptor that takes what comes on a descriptor; rings
  for (;;) {
    epoll_event event;
    if (::epoll_wait(poll, &event, 1, -1) != 1) continue;
    const int from = event.data.fd;
    if (from == STDIN_FILENO) return 0;
    if (from == listener) {
      std::vector<int> ring = {::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)};
      if (ring[0] < 0) die("accept");
      for (char** target = words + 2; *target; target++) ring.push_back(connected(std::atoi(*target)));
      for (size_t i = 0; i < ring.size(); i++) {
        send_at_once(ring[i]);
        watch(ring[i]);
        next[ring[i]] = ring[(i + 1) % ring.size()];
      }
      continue;
    }
    char bytes[4096];
    const ssize_t length = ::read(from, bytes, sizeof bytes);
    if (length > 0 && ::write(next[from], bytes, static_cast<size_t>(length)) == length) continue;
    for (int descriptor = from; next.contains(descriptor);) {
      const int following = next[descriptor];
      next.erase(descriptor);
      ::close(descriptor);
      descriptor = following;
    }
  }
}
