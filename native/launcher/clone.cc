#include "launcher/clone.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>

namespace dsec {
namespace {

// In the child nothing of the caller's frame may be touched: it starts on another stack, straight from the call.
long call_clone3(clone_args* arguments, void (*entry)(void*), void* argument) {
  long result;
#if defined(__x86_64__)
  register void (*kept_entry)(void*) asm("r12") = entry;
  register void* kept_argument asm("r13") = argument;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r13, %%rdi\n\t"
      "call *%%r12\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"(SYS_clone3), "D"(arguments), "S"(sizeof *arguments), "r"(kept_entry), "r"(kept_argument)
      : "rcx", "r11", "memory", "cc");
#elif defined(__aarch64__)
  register long x8 asm("x8") = SYS_clone3;
  register long x0 asm("x0") = reinterpret_cast<long>(arguments);
  register long x1 asm("x1") = sizeof *arguments;
  register void (*kept_entry)(void*) asm("x19") = entry;
  register void* kept_argument asm("x20") = argument;
  asm volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, #0\n\t"
      "mov x0, x20\n\t"
      "blr x19\n\t"
      "brk #0\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(kept_entry), "r"(kept_argument)
      : "memory", "cc");
  result = x0;
#else
#error "clone_process knows the system call convention of x86-64 and AArch64"
#endif
  return result;
}

}  // namespace

Result<Cloned> clone_process(const CloneRequest& request, void (*entry)(void*), void* argument) {
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = request.flags | CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  arguments.stack = reinterpret_cast<uint64_t>(request.stack);
  arguments.stack_size = request.stack_bytes;
  if (request.cgroup >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<uint64_t>(request.cgroup);
  }
  const long pid = call_clone3(&arguments, entry, argument);
  if (pid < 0) return Error{"clone3", request.cgroup >= 0 ? "CLONE_INTO_CGROUP" : "", static_cast<int>(-pid)};
  return Cloned{static_cast<pid_t>(pid), Fd(pidfd)};
}

}  // namespace dsec
