#include "ring/ring.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <new>

#include "ring/futex.h"

namespace dsec {

namespace {

constexpr uint64_t kMagic = 0x31474e4952435344;  // "DSCRING1"

constexpr size_t whole(size_t bytes) { return (sizeof(RecordHead) + bytes + 7) & ~size_t{7}; }

int64_t now_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

// What one lost wake-up can cost a producer, whatever its cause.
constexpr int64_t kLookAgainUs = 100'000;

// Producers take turns. The mutex is robust: what a producer that died within had not published is as if it never was.
class Turn {
 public:
  // Looks again now and then: where a waiter is killed between being woken and taking the mutex, and another takes it
  // meanwhile, neither glibc nor the kernel (handle_futex_death) wakes the next one.
  explicit Turn(pthread_mutex_t& mutex) : mutex_(mutex) {
    int number = ::pthread_mutex_trylock(&mutex_);
    while (number == EBUSY || number == ETIMEDOUT) {
      const int64_t until_us = now_us() + kLookAgainUs;
      const timespec until{until_us / 1'000'000, until_us % 1'000'000 * 1000};
      number = ::pthread_mutex_clocklock(&mutex_, CLOCK_MONOTONIC, &until);
    }
    if (number == EOWNERDEAD) ::pthread_mutex_consistent(&mutex_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { ::pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace

// In the file's first page. Positions count bytes since the ring was made and never wrap.
struct Ring::Head {
  uint64_t magic;
  pthread_mutex_t turn;
  // Producers publish by the one store to `filled_to`; the collector frees by the one to `freed_to`.
  alignas(64) std::atomic<uint64_t> filled_to;
  std::atomic<uint64_t> urgent_to;
  alignas(64) std::atomic<uint64_t> freed_to;
  // The collector sleeps on `filled` until so many bytes are there; 0 while it is awake.
  alignas(64) std::atomic<uint64_t> wanted_bytes;
  std::atomic<uint32_t> filled;
  // The producer whose turn it is sleeps on `freed`.
  std::atomic<uint32_t> wants_room;
  std::atomic<uint32_t> freed;
  std::atomic<uint32_t> closed;
  alignas(64) std::atomic<uint64_t> produced;
  std::atomic<uint64_t> waits;
  std::atomic<uint64_t> waited_us;
  alignas(64) std::atomic<uint64_t> collected;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

Ring::Head& Ring::head() const {
  static_assert(sizeof(Head) <= 4096);
  return *static_cast<Head*>(mirror_.head());
}

Result<Ring> Ring::create(size_t bytes) {
  TRY_ASSIGN(mirror, Mirror::create(bytes));
  Head* head = new (mirror.head()) Head{};
  pthread_mutexattr_t kind;
  ::pthread_mutexattr_init(&kind);
  ::pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  const int number = ::pthread_mutex_init(&head->turn, &kind);
  ::pthread_mutexattr_destroy(&kind);
  if (number != 0) return Error{"pthread_mutex_init", "ring", number};
  head->magic = kMagic;
  return Ring(std::move(mirror));
}

Result<Ring> Ring::attach(int file) {
  TRY_ASSIGN(mirror, Mirror::attach(file));
  Ring ring(std::move(mirror));
  if (ring.head().magic != kMagic) return Error{"attach to a ring", "the descriptor is none", 0};
  return ring;
}

Ring::Pushed Ring::push(RecordHead record, const uint8_t* bytes, bool urgent) {
  if (record.bytes > record_bytes_max()) return Pushed::kTooLarge;
  Head& ring = head();
  const size_t room = whole(record.bytes);
  uint64_t end;
  {
    Turn turn(ring.turn);
    const uint64_t at = ring.filled_to.load(std::memory_order_relaxed);
    end = at + room;
    const auto fits = [&] { return end - ring.freed_to.load() <= mirror_.bytes(); };
    if (!fits()) {
      const int64_t began_us = now_us();
      while (!fits() && !ring.closed.load()) {
        const uint32_t before = ring.freed.load();
        ring.wants_room.store(1);
        if (!fits()) futex_wait(ring.freed, before, kLookAgainUs);
      }
      ring.wants_room.store(0);
      ring.waits.fetch_add(1, std::memory_order_relaxed);
      ring.waited_us.fetch_add(static_cast<uint64_t>(now_us() - began_us), std::memory_order_relaxed);
    }
    if (ring.closed.load()) return Pushed::kClosed;
    uint8_t* place = mirror_.content() + (at & (mirror_.bytes() - 1));
    std::memcpy(place, &record, sizeof record);
    std::memcpy(place + sizeof record, bytes, record.bytes);
    if (urgent) ring.urgent_to.store(end);
    ring.filled_to.store(end);
    ring.produced.fetch_add(1, std::memory_order_relaxed);
  }
  const uint64_t wanted = ring.wanted_bytes.load();
  if (wanted != 0 && (urgent || end - ring.freed_to.load() >= wanted)) {
    ring.filled.fetch_add(1);
    futex_wake(ring.filled);
  }
  return Pushed::kYes;
}

bool Ring::wait(size_t bytes, int64_t timeout_us) {
  Head& ring = head();
  // Producers that wait for room have filled more than half: a collector that waited for more would wait for them.
  const uint64_t wanted = std::clamp<uint64_t>(bytes, 1, mirror_.bytes() / 2);
  const uint64_t freed_to = ring.freed_to.load();
  const auto enough = [&] {
    return ring.filled_to.load() - freed_to >= wanted || ring.urgent_to.load() > freed_to || ring.closed.load();
  };
  const int64_t until_us = now_us() + timeout_us;
  while (!enough()) {
    const int64_t left_us = until_us - now_us();
    if (left_us <= 0) break;
    const uint32_t before = ring.filled.load();
    ring.wanted_bytes.store(wanted);
    if (!enough()) futex_wait(ring.filled, before, left_us);
    ring.wanted_bytes.store(0);
  }
  return ring.filled_to.load() != freed_to;
}

size_t Ring::drain(std::span<uint8_t> out) {
  Head& ring = head();
  const uint64_t from = ring.freed_to.load();
  const uint64_t end = ring.filled_to.load();
  const uint8_t* content = mirror_.content() + (from & (mirror_.bytes() - 1));
  size_t taken = 0;
  uint64_t records = 0;
  while (from + taken < end) {
    RecordHead record;
    std::memcpy(&record, content + taken, sizeof record);
    const size_t room = whole(record.bytes);
    if (taken + room > out.size()) break;
    taken += room;
    records++;
  }
  if (taken == 0) return 0;
  std::memcpy(out.data(), content, taken);
  ring.collected.fetch_add(records, std::memory_order_relaxed);
  ring.freed_to.store(from + taken);
  if (ring.wants_room.load()) {
    ring.freed.fetch_add(1);
    futex_wake(ring.freed);
  }
  return taken;
}

void Ring::close() {
  Head& ring = head();
  ring.closed.store(1);
  for (auto* word : {&ring.filled, &ring.freed}) {
    word->fetch_add(1);
    futex_wake(*word);
  }
}

RingCounters Ring::counters() const {
  const Head& ring = head();
  return {ring.produced.load(), ring.filled_to.load(), ring.collected.load(), ring.waits.load(), ring.waited_us.load()};
}

}  // namespace dsec
