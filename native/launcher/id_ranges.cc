#include "launcher/id_ranges.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/files.h"

namespace dsec {
namespace {

// The byte at offset N of this file stands for the id N. Nothing is ever written to it: locks lie on it.
constexpr const char* kPath = "/run/dsec-ids";

}  // namespace

Result<IdRanges> IdRanges::open() {
  Result<Fd> file = open_at(AT_FDCWD, kPath, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (!file) return std::move(file).error().with_code("HOST_UNSUITABLE");
  struct stat status{};
  if (::fstat(file->get(), &status) != 0) return failed("fstat", kPath);
  if (!S_ISREG(status.st_mode) || status.st_uid != 0) {
    return Error{"id ranges", std::string(kPath) + " is not a file of root's; remove it", 0, "HOST_UNSUITABLE"};
  }
  IdRanges ranges;
  ranges.file_ = *std::move(file);
  return ranges;
}

Result<bool> IdRanges::claim(uint32_t first, uint32_t count) {
  // Of the open file, not of the process, whose locks go as soon as it closes any descriptor of the file.
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = first;
  range.l_len = count;
  if (::fcntl(file_.get(), F_OFD_SETLK, &range) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return failed("fcntl F_OFD_SETLK", kPath);
}

}  // namespace dsec
