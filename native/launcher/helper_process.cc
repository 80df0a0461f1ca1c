#include "launcher/helper_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dsec {

Result<Fd> start_helper(const char* name, const std::function<void(int socket)>& work) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return failed("socketpair", name);
  Fd ours(ends[0]), theirs(ends[1]);
  // Thousands of messages: the launcher does not wait for a helper that is in the midst of something long.
  constexpr int kBufferBytes = 4 << 20;
  ::setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kBufferBytes, sizeof kBufferBytes);
  const pid_t launcher = ::getpid();
  pid_t pid = ::fork();
  if (pid < 0) return failed("fork", name);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    ::prctl(PR_SET_NAME, name, 0, 0, 0);
    if (::getppid() != launcher) ::_exit(1);
    // Above all neither the lock of the state folder nor Node's socket: both must be free once the launcher is dead.
    constexpr int kSocket = 3;
    if (::dup2(theirs.get(), kSocket) < 0 || ::close_range(kSocket + 1, ~0U, 0) != 0) ::_exit(1);
    work(kSocket);
    ::_exit(0);
  }
  return ours;
}

}  // namespace dsec
