// futex(2) on a word that processes share.
#pragma once

#include <atomic>
#include <cstdint>

namespace dsec {

// Sleeps while the word holds `value`, at most so long; it may also return for nothing.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value, int64_t timeout_us);

// Wakes whoever sleeps on the word.
void futex_wake(std::atomic<uint32_t>& word);

}  // namespace dsec
