#include "ring/mirror.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>

namespace dsec {

namespace {

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

Result<Mirror> Mirror::create(size_t bytes) {
  if (!std::has_single_bit(bytes) || bytes % page_bytes() != 0) {
    return Error{"make a ring of " + std::to_string(bytes) + " bytes", "not a power of two of whole pages", 0};
  }
  Fd file(::memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return failed("memfd_create", "ring");
  if (::ftruncate(file.get(), static_cast<off_t>(page_bytes() + bytes)) != 0) return failed("ftruncate", "ring");
  // Whoever has the descriptor too cannot take pages away from under us, which would be SIGBUS.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return failed("fcntl", "ring");
  return map(std::move(file), bytes);
}

Result<Mirror> Mirror::attach(int file) {
  Fd own(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!own) return failed("fcntl", "ring");
  struct stat status{};
  if (::fstat(own.get(), &status) != 0) return failed("fstat", "ring");
  const size_t bytes = static_cast<size_t>(status.st_size) - page_bytes();
  if (static_cast<size_t>(status.st_size) <= page_bytes() || !std::has_single_bit(bytes)) {
    return Error{"attach to a ring", "the descriptor is none", 0};
  }
  return map(std::move(own), bytes);
}

Result<Mirror> Mirror::map(Fd file, size_t bytes) {
  const size_t page = page_bytes();
  const size_t all = page + 2 * bytes;
  void* reserved = ::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return failed("mmap", "ring");
  // From here on its destructor unmaps, whatever fails.
  Mirror mirror(std::move(file), static_cast<uint8_t*>(reserved), bytes);
  const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
  if (::mmap(mirror.base_, page + bytes, protection, flags, mirror.file(), 0) == MAP_FAILED ||
      ::mmap(mirror.base_ + page + bytes, bytes, protection, flags, mirror.file(), static_cast<off_t>(page)) ==
          MAP_FAILED) {
    return failed("mmap", "ring");
  }
  return mirror;
}

Mirror::Mirror(Mirror&& other) noexcept
    : file_(std::move(other.file_)), base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}

Mirror::~Mirror() {
  if (base_ != nullptr) ::munmap(base_, page_bytes() + 2 * bytes_);
}

uint8_t* Mirror::content() const { return base_ + page_bytes(); }

}  // namespace dsec
