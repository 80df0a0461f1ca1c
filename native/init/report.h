// What pid 1 of a sandbox tells the launcher over the control socket, once, before it exits.
#pragma once

namespace dsec {

struct InitReport {
  // errno of the execve(2), or of the fork before it, when the command could not be started; 0 otherwise.
  int exec_error;
  // Whether a file of that name is there all the same: it is no program, or what it needs to start is not there.
  int is_found;
  // The command's status as wait4(2) gives it.
  int wait_status;
};

}  // namespace dsec
