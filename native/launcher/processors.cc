#include "launcher/processors.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace dsec {
namespace {

// The most that Linux can be built for.
constexpr unsigned kProcessorsMax = 8192;
constexpr unsigned kBits = 8 * sizeof(unsigned long);
using Mask = std::array<unsigned long, kProcessorsMax / kBits>;

// By system call: it tells how much of the mask it has filled in, and the C library clears all the rest each time.
Result<std::vector<unsigned>> own_processors() {
  Mask mask;
  const long bytes = ::syscall(SYS_sched_getaffinity, 0, sizeof mask, mask.data());
  if (bytes < 0) return failed("sched_getaffinity");
  std::vector<unsigned> numbers;
  for (unsigned number = 0; number < static_cast<unsigned>(bytes) * 8; number++) {
    if (mask[number / kBits] >> (number % kBits) & 1) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

Result<ProcessorShare> Processors::take(int64_t cpu_millis) {
  TRY_ASSIGN(numbers, own_processors());
  if (numbers.back() >= promised_millis_.size()) promised_millis_.resize(numbers.back() + 1);
  const size_t wanted = static_cast<size_t>((cpu_millis + 999) / 1000);
  if (wanted < numbers.size()) {
    std::stable_sort(numbers.begin(), numbers.end(),
                     [&](unsigned a, unsigned b) { return promised_millis_[a] < promised_millis_[b]; });
    numbers.resize(wanted);
    std::sort(numbers.begin(), numbers.end());
  }
  ProcessorShare share{std::move(numbers), 0};
  share.millis_each = cpu_millis / static_cast<int64_t>(share.numbers.size());
  for (unsigned number : share.numbers) promised_millis_[number] += share.millis_each;
  return share;
}

void Processors::give_back(const ProcessorShare& share) {
  for (unsigned number : share.numbers) promised_millis_[number] -= share.millis_each;
}

Result<void> run_on(pid_t pid, const std::vector<unsigned>& processors) {
  Mask mask{};
  for (unsigned number : processors) mask[number / kBits] |= 1UL << (number % kBits);
  if (::syscall(SYS_sched_setaffinity, pid, sizeof mask, mask.data()) != 0) {
    return failed("sched_setaffinity", processor_list(processors));
  }
  return {};
}

std::string processor_list(const std::vector<unsigned>& numbers) {
  std::string text;
  for (size_t first = 0; first < numbers.size();) {
    size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) last++;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[first]);
    if (last > first) text += '-' + std::to_string(numbers[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace dsec
