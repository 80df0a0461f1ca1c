// socket(2) and socketpair(2) under seccomp(2): what is not there answers as a kernel without it would, by the errno that
// programs know how to go on from.
#pragma once

#include <linux/filter.h>

#include <vector>

namespace dsec {

// Instructions for the head of a filter: they decide these two calls and let all others through to what follows. Written
// by hand because libseccomp has one answer for all that no rule names, and a family that is absent, a type and a
// protocol have one each.
std::vector<sock_filter> socket_rules();

}  // namespace dsec
