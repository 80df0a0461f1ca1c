// clone3(2), of which the C library exports no call.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

struct CloneRequest {
  uint64_t flags;  // CLONE_VM, CLONE_VFORK and others, without CLONE_PIDFD, which is always asked for
  void* stack;
  size_t stack_bytes;
  // Group of version 2 that the child is born in, or -1: the launcher's own.
  int cgroup = -1;
};

struct Cloned {
  pid_t pid;
  Fd pidfd;
};

// The child runs `entry(argument)` on its stack; `entry` never returns.
Result<Cloned> clone_process(const CloneRequest& request, void (*entry)(void*), void* argument);

}  // namespace dsec
