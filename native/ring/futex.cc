#include "ring/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace dsec {

// Without FUTEX_PRIVATE_FLAG: the word is found by its page, which each process has mapped elsewhere.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value, int64_t timeout_us) {
  timespec timeout{timeout_us / 1'000'000, timeout_us % 1'000'000 * 1000};
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, &timeout, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace dsec
