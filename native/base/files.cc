#include "base/files.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

namespace dsec {

Result<Fd> open_at(int directory, const std::string& path, int flags, unsigned mode) {
  int number;
  do {
    number = ::openat(directory, path.c_str(), flags | O_CLOEXEC, mode);
  } while (number < 0 && errno == EINTR);
  if (number < 0) return failed("open", path);
  return Fd(number);
}

Result<std::string> read_file(int directory, const std::string& path) {
  TRY_ASSIGN(file, open_at(directory, path, O_RDONLY));
  std::string content;
  char buffer[4096];
  for (;;) {
    ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("read", path);
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
  }
}

Result<void> write_file(int directory, const std::string& path, std::string_view value) {
  TRY_ASSIGN(file, open_at(directory, path, O_WRONLY));
  ssize_t count = ::write(file.get(), value.data(), value.size());
  if (count < 0) return failed("write", path + " " + std::string(value));
  return {};
}

Result<void> make_file(const std::string& path, std::string_view content, unsigned mode) {
  TRY_ASSIGN(file, open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode));
  while (!content.empty()) {
    ssize_t count = ::write(file.get(), content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("write", path);
    content.remove_prefix(static_cast<size_t>(count));
  }
  if (::fchmod(file.get(), mode) != 0) return failed("fchmod", path);
  return {};
}

Result<void> make_directory(const std::string& path, unsigned mode) {
  if (::mkdir(path.c_str(), mode) == 0) {
    // mkdir(2) takes the umask off the mode.
    if (::chmod(path.c_str(), mode) != 0) return failed("chmod", path);
    return {};
  }
  if (errno != EEXIST) return failed("mkdir", path);
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return failed("lstat", path);
  if (!S_ISDIR(status.st_mode)) return Error{"mkdir", path, ENOTDIR};
  return {};
}

Result<std::string> read_link(int directory, const std::string& path) {
  char buffer[PATH_MAX];
  ssize_t count = ::readlinkat(directory, path.c_str(), buffer, sizeof buffer);
  if (count < 0) return failed("readlink", path);
  return std::string(buffer, static_cast<size_t>(count));
}

}  // namespace dsec
