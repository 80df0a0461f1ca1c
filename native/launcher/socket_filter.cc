#include "launcher/socket_filter.h"

#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <initializer_list>

namespace dsec {
namespace {

constexpr uint32_t refuse(int number) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(number); }

// The kernel takes all three arguments as 32 bits of a 64-bit register, on machines whose low half comes first.
constexpr uint32_t argument(unsigned number) {
  return offsetof(seccomp_data, args) + number * static_cast<uint32_t>(sizeof(uint64_t));
}

class Program {
 public:
  void load(uint32_t offset) { add({BPF_LD | BPF_W | BPF_ABS, 0, 0, offset}); }
  void mask(uint32_t bits) { add({BPF_ALU | BPF_AND | BPF_K, 0, 0, bits}); }
  void answer(uint32_t action) { add({BPF_RET | BPF_K, 0, 0, action}); }
  void answer_if(uint32_t value, uint32_t action) {
    add({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value});
    answer(action);
  }
  // Goes on if what was loaded is one of these, else where `land` is called for what this returns.
  size_t only_if(std::initializer_list<uint32_t> values) {
    uint8_t left = static_cast<uint8_t>(values.size());
    for (const uint32_t value : values) add({BPF_JMP | BPF_JEQ | BPF_K, --left, 0, value});
    return instructions.size() - 1;
  }
  void land(size_t jump) { instructions[jump].jf = static_cast<uint8_t>(instructions.size() - jump - 1); }
  // Of protocols that are not there the kernel would load a module, whoever asks.
  void only_protocols(std::initializer_list<uint32_t> protocols) {
    load(argument(2));
    for (const uint32_t protocol : protocols) answer_if(protocol, SECCOMP_RET_ALLOW);
    answer(refuse(EPROTONOSUPPORT));
  }

  std::vector<sock_filter> instructions;

 private:
  void add(sock_filter instruction) { instructions.push_back(instruction); }
};

}  // namespace

std::vector<sock_filter> socket_rules() {
  constexpr uint32_t kType = 0xf;  // SOCK_TYPE_MASK of the kernel; above it are SOCK_NONBLOCK and SOCK_CLOEXEC
  Program program;
  program.load(offsetof(seccomp_data, arch));
  const size_t other_processor = program.only_if({::seccomp_arch_native()});
  program.load(offsetof(seccomp_data, nr));
  const size_t other_call = program.only_if({SYS_socket, SYS_socketpair});

  program.load(argument(0));
  program.answer_if(AF_UNIX, SECCOMP_RET_ALLOW);
  // As the kernel says to who may not.
  program.answer_if(AF_PACKET, refuse(EPERM));

  // What rtnetlink(7) tells about the sandbox's own interfaces. Of audit this is the answer by which programs know that
  // this kernel has none, and go on.
  const size_t no_netlink = program.only_if({AF_NETLINK});
  program.only_protocols({NETLINK_ROUTE});
  program.land(no_netlink);

  // The sandbox's own loopback: TCP, UDP and ping.
  const size_t no_internet = program.only_if({AF_INET, AF_INET6});
  program.load(argument(1));
  program.mask(kType);
  // Of any protocol, without a module, and refused by the kernel to who may not: programs know that answer.
  program.answer_if(SOCK_RAW, SECCOMP_RET_ALLOW);
  const size_t no_stream = program.only_if({SOCK_STREAM});
  program.only_protocols({IPPROTO_IP, IPPROTO_TCP, IPPROTO_MPTCP});
  program.land(no_stream);
  const size_t no_datagram = program.only_if({SOCK_DGRAM});
  program.only_protocols({IPPROTO_IP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6});
  program.land(no_datagram);
  program.answer(refuse(ESOCKTNOSUPPORT));

  program.land(no_internet);
  program.answer(refuse(EAFNOSUPPORT));
  program.land(other_processor);
  program.land(other_call);
  return program.instructions;
}

}  // namespace dsec
