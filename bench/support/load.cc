// A client that measures, small enough to be no part of what it measures. Runs on the host and inside sandboxes.
//
//   load http TARGET CONNECTIONS COUNT PACE_US METHOD PATH BODY…  HTTP/1.1 over kept connections; TARGET is unix:PATH or
//                                                                 a port on 127.0.0.1; PACE_US is the time from the start
//                                                                 of one call of a connection to the next, 0 for none.
//                                                                 Each connection makes of several requests one in turn,
//                                                                 and what stands before the word --- uncounted, before
//                                                                 any connection's time begins; # in a path is the
//                                                                 connection's number
//   load exec COUNT COMMAND… [--- COMMAND…]…                      the commands started and waited for, in turn, COUNT times
//                                                                 each; what they print is dropped
//
// Prints {"seconds": wall time, "us": [each call's microseconds]} on standard output. Any other status than 2xx ends it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "load: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

int connected(const std::string& target) {
  if (target.rfind("unix:", 0) == 0) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(address.sun_path, target.c_str() + 5, sizeof address.sun_path - 1);
    int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("connect " + target);
    return socket;
  }
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(std::stoi(target)), .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("connect " + target);
  return socket;
}

// Reads one answer that has a Content-Length.
void read_answer(int socket) {
  std::string text;
  char buffer[65536];
  size_t head = std::string::npos, whole = 0;
  while (head == std::string::npos || text.size() < whole) {
    ssize_t count = ::recv(socket, buffer, sizeof buffer, 0);
    if (count <= 0) die("the connection ended in an answer");
    text.append(buffer, static_cast<size_t>(count));
    if (head != std::string::npos || (head = text.find("\r\n\r\n")) == std::string::npos) continue;
    if (text.compare(8, 2, " 2") != 0) die("answer: " + text.substr(0, 600));
    const char* length = ::strcasestr(text.c_str(), "\r\ncontent-length:");
    whole = head + 4 + (length ? std::strtoul(length + 17, nullptr, 10) : 0);
  }
}

std::string request_of(const std::string& method, std::string path, const std::string& body, int connection) {
  if (const size_t at = path.find('#'); at != std::string::npos) path.replace(at, 1, std::to_string(connection));
  std::string request = method + " " + path + " HTTP/1.1\r\nhost: localhost\r\n";
  if (!body.empty()) request += "content-type: application/json\r\n";
  return request + "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

void call(int socket, const std::string& request) {
  if (::send(socket, request.data(), request.size(), MSG_NOSIGNAL) < 0) die("send");
  read_answer(socket);
}

int main(int count, char** words) {
  if (count < 4) die("usage: load http|exec …");
  std::vector<double> samples;
  auto start = Clock::now();
  if (std::string(words[1]) == "exec") {
    // standard output is for the figures
    posix_spawn_file_actions_t silence;
    posix_spawn_file_actions_init(&silence);
    posix_spawn_file_actions_addopen(&silence, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    std::vector<char**> commands = {words + 3};
    for (char** word = words + 3; *word; word++) {
      if (std::strcmp(*word, "---") != 0) continue;
      *word = nullptr;
      commands.push_back(word + 1);
    }
    for (int left = std::atoi(words[2]); left > 0; left--) {
      for (char** command : commands) {
        const auto begun = Clock::now();
        pid_t child;
        int status;
        if ((errno = ::posix_spawnp(&child, command[0], &silence, nullptr, command, environ)) != 0) die(command[0]);
        if (::waitpid(child, &status, 0) != child || status != 0) die(std::string(command[0]) + " failed");
        samples.push_back(us_since(begun));
      }
    }
  } else {
    if (count < 9) die("usage: load http TARGET CONNECTIONS COUNT PACE_US [METHOD PATH BODY… ---] METHOD PATH BODY…");
    const std::string target = words[2];
    const int connections = std::atoi(words[3]), each = std::atoi(words[4]) / connections;
    const std::chrono::microseconds pace(std::atoi(words[5]));
    std::vector<std::vector<double>> measured(static_cast<size_t>(connections));
    std::vector<std::thread> threads;
    std::barrier begin(connections, [&]() noexcept { start = Clock::now(); });
    for (int index = 0; index < connections; index++) {
      threads.emplace_back([&, index] {
        const int socket = connected(target);
        std::vector<std::string> requests;
        for (char** word = words + 6; *word; word += 3) {
          if (std::strcmp(*word, "---") == 0) {
            for (const std::string& request : requests) call(socket, request);
            requests.clear();
            word++;
          }
          requests.push_back(request_of(word[0], word[1], word[2], index));
        }
        begin.arrive_and_wait();
        auto due = start + pace * (index + 1) / connections;
        for (int i = 0; i < each; i++, due += pace) {
          if (pace.count() > 0) std::this_thread::sleep_until(due);
          const std::string& request = requests[static_cast<size_t>(i) % requests.size()];
          const auto begun = Clock::now();
          call(socket, request);
          measured[static_cast<size_t>(index)].push_back(us_since(begun));
        }
        ::close(socket);
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& part : measured) samples.insert(samples.end(), part.begin(), part.end());
  }
  std::printf("{\"seconds\":%.6f,\"us\":[", us_since(start) / 1e6);
  for (size_t i = 0; i < samples.size(); i++) std::printf(i ? ",%.1f" : "%.1f", samples[i]);
  std::printf("]}\n");
}
