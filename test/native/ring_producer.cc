// Pushes records whose every byte can be foretold. ring_producer DESCRIPTOR SLOT COUNT [THREADS]: thread T of them uses
// slot SLOT + T. A record's kind is its number's low 16 bits, its time its number, its length and bytes follow from both.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ring/ring.h"

int main(int count, char** arguments) {
  if (count < 4) return 2;
  auto ring = dsec::Ring::attach(std::atoi(arguments[1]));
  if (!ring) return 3;
  const unsigned first_slot = static_cast<unsigned>(std::atoi(arguments[2]));
  const uint64_t records = std::strtoull(arguments[3], nullptr, 10);
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < (count > 4 ? static_cast<unsigned>(std::atoi(arguments[4])) : 1); thread++) {
    threads.emplace_back([&, slot = first_slot + thread] {
      std::vector<uint8_t> bytes;
      for (uint64_t number = 0; number < records; number++) {
        bytes.resize((number * 7919 + slot) % 901);
        for (size_t at = 0; at < bytes.size(); at++) bytes[at] = static_cast<uint8_t>(number + slot + at);
        const dsec::RecordHead head{static_cast<uint32_t>(bytes.size()), static_cast<uint16_t>(slot),
                                    static_cast<uint16_t>(number), number};
        if (ring->push(head, bytes.data(), number % 97 == 0) != dsec::Ring::Pushed::kYes) std::exit(4);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return 0;
}
