#include "tool/run_tool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/fd.h"
#include "tool/arguments.h"
#include "tool/output.h"

namespace dsec::tool {
namespace {

using Json = nlohmann::ordered_json;

// What the channel takes of each (core/limits.ts, toolOutputBytes, toolErrorBytes): of errors the end, which says most.
constexpr size_t kOutputBytesMax = 8 * 1024 * 1024;
constexpr size_t kErrorBytesMax = 16 * 1024;

int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

struct Pipe {
  Fd read_end, write_end;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw UsageError(std::string("cannot make a pipe: ") + std::strerror(errno));
  return {Fd(ends[0]), Fd(ends[1])};
}

[[noreturn]] void become(const std::vector<std::string>& command, const Pipe& in, const Pipe& out, const Pipe& err) {
  ::setpgid(0, 0);
  ::dup2(in.read_end.get(), STDIN_FILENO);
  ::dup2(out.write_end.get(), STDOUT_FILENO);
  ::dup2(err.write_end.get(), STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> argv;
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  // As the launcher tells of a command of its own: what is there and does not start ends with 126.
  const int number = errno;
  const bool is_named = command[0].find('/') != std::string::npos && ::access(command[0].c_str(), F_OK) == 0;
  const bool is_absent = number == ENOTDIR || number == ENAMETOOLONG || number == ELOOP;
  const bool is_found = number == ENOENT ? is_named : !is_absent;
  const std::string text = "execve " + command[0] + ": " +
                           (is_found && number == ENOENT ? "its interpreter or loader is not there" : std::strerror(number)) +
                           "\n";
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(is_found ? 126 : 127);
}

// Reads what is there; false at the end.
bool take(int descriptor, std::string& into) {
  char part[64 * 1024];
  const ssize_t count = ::read(descriptor, part, sizeof part);
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  into.append(part, static_cast<size_t>(count));
  return count > 0;
}

void keep_begin(std::string& bytes, size_t kept) { bytes.resize(std::min(bytes.size(), kept)); }

void keep_end(std::string& bytes, size_t kept) {
  if (bytes.size() > kept) bytes.erase(0, bytes.size() - kept);
}

}  // namespace

std::string run_tool(const std::string& begun) {
  const Json plan = Json::parse(begun);
  const std::vector<std::string> command = plan["command"];
  const std::string input = raw_member(begun, "input");
  const int64_t deadline_ms = now_ms() + plan["timeout_ms"].get<int64_t>();
  ::signal(SIGPIPE, SIG_IGN);
  Pipe in = make_pipe(), out = make_pipe(), err = make_pipe();
  const pid_t pid = ::fork();
  if (pid < 0) throw UsageError(std::string("cannot fork: ") + std::strerror(errno));
  if (pid == 0) become(command, in, out, err);
  ::setpgid(pid, pid);
  in.read_end.reset();
  out.write_end.reset();
  err.write_end.reset();
  ::fcntl(in.write_end.get(), F_SETFL, O_NONBLOCK);

  std::string output, errors;
  size_t written = 0;
  bool timed_out = false;
  while (out.read_end || err.read_end) {
    const int64_t left_ms = deadline_ms - now_ms();
    if (left_ms <= 0) {
      timed_out = true;
      break;
    }
    // poll(2) passes over descriptors that are negative.
    pollfd waits[] = {{out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}, {in.write_end.get(), POLLOUT, 0}};
    if (::poll(waits, 3, static_cast<int>(std::min<int64_t>(left_ms, 60'000))) < 0 && errno != EINTR) break;
    if (waits[0].revents != 0 && !take(out.read_end.get(), output)) out.read_end.reset();
    if (waits[1].revents != 0 && !take(err.read_end.get(), errors)) err.read_end.reset();
    keep_begin(output, kOutputBytesMax);
    keep_end(errors, kErrorBytesMax);
    if (waits[2].revents != 0) {
      const ssize_t count = ::write(in.write_end.get(), input.data() + written, input.size() - written);
      if (count > 0) written += static_cast<size_t>(count);
      if ((count < 0 && errno != EAGAIN && errno != EINTR) || written == input.size()) in.write_end.reset();
    }
  }
  int status = 0;
  // The streams are closed: it has ended, or will be any moment; one that goes on without them is ended by its time.
  while (!timed_out && ::waitpid(pid, &status, WNOHANG) == 0) {
    if (now_ms() >= deadline_ms) timed_out = true;
    ::usleep(1000);
  }
  if (timed_out) {
    ::kill(-pid, SIGKILL);
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  Json end = {{"call", plan["call"]}, {"exit_code", nullptr}, {"signal", nullptr}, {"timed_out", timed_out}};
  if (WIFEXITED(status)) end["exit_code"] = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end["signal"] = WTERMSIG(status);
  end["stdout_base64"] = to_base64(output);
  end["stderr_base64"] = to_base64(errors);
  return end.dump();
}

}  // namespace dsec::tool
