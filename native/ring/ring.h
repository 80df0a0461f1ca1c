// Records from many producers to one collector, through memory that threads and processes share. Nothing is ever
// dropped: where the ring is full, producers wait, and counters say how often and how long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "ring/mirror.h"

namespace dsec {

// Stands before each record's bytes, in the ring and in what `drain` gives; records begin at multiples of 8 bytes.
struct RecordHead {
  uint32_t bytes;
  uint16_t slot;   // of the sandbox
  uint16_t kind;   // the producer's and the collector's affair
  uint64_t time_us;
};

struct RingCounters {
  uint64_t produced;
  uint64_t produced_bytes;
  uint64_t collected;
  uint64_t waits;
  uint64_t waited_us;
};

class Ring {
 public:
  static Result<Ring> create(size_t bytes);
  static Result<Ring> attach(int file);

  // The largest record that `push` takes.
  size_t record_bytes_max() const { return mirror_.bytes() / 4 - sizeof(RecordHead); }
  int file() const { return mirror_.file(); }

  enum class Pushed { kYes, kClosed, kTooLarge };
  // Any thread of any process. Waits while there is no room. `urgent` wakes a collector that gathers.
  Pushed push(RecordHead head, const uint8_t* bytes, bool urgent);

  // The collector alone. Waits until `bytes` are there or an urgent record is, at most so long; true where anything is.
  bool wait(size_t bytes, int64_t timeout_us);
  // Moves whole records into `out`, each with its head, and returns their bytes; 0 where there are none.
  size_t drain(std::span<uint8_t> out);

  // Ends it: pushes are refused from now on, waits return. What is in it can still be drained.
  void close();

  RingCounters counters() const;

 private:
  struct Head;

  explicit Ring(Mirror mirror) : mirror_(std::move(mirror)) {}
  Head& head() const;

  Mirror mirror_;
};

}  // namespace dsec
