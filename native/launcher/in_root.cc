#include "launcher/in_root.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files.h"

namespace dsec {

Result<Fd> open_in_root(int root, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags) | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  for (;;) {
    long number = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
    if (number >= 0) return Fd(static_cast<int>(number));
    // EAGAIN: a rename raced with "..": the kernel asks to try again.
    if (errno != EINTR && errno != EAGAIN) return failed("openat2", path);
  }
}

Result<Fd> make_directories_in_root(int root, const std::string& path, unsigned mode) {
  constexpr int kFlags = O_PATH | O_DIRECTORY;
  Result<Fd> whole = open_in_root(root, path.empty() ? "/" : path, kFlags);
  if (whole || whole.error().number != ENOENT) return whole;
  TRY_ASSIGN(folder, open_in_root(root, "/", kFlags));
  for (size_t start = 0; start < path.size();) {
    size_t end = path.find('/', start);
    if (end == std::string::npos) end = path.size();
    if (end > start) {
      const std::string prefix = path.substr(0, end);
      Result<Fd> next = open_in_root(root, prefix, kFlags);
      if (!next && next.error().number == ENOENT) {
        const std::string name = path.substr(start, end - start);
        if (::mkdirat(folder.get(), name.c_str(), mode) != 0) return failed("mkdir", prefix);
        next = open_in_root(root, prefix, kFlags);
      }
      if (!next) return next;
      folder = *std::move(next);
    }
    start = end + 1;
  }
  return folder;
}

Result<Fd> make_file_in_root(int root, const std::string& path) {
  Result<Fd> there = open_in_root(root, path, O_PATH);
  if (there || there.error().number != ENOENT) return there;
  size_t slash = path.find_last_of('/');
  const std::string parent = slash == std::string::npos ? "" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  TRY_ASSIGN(folder, make_directories_in_root(root, parent, 0755));
  TRY_ASSIGN(made, open_at(folder.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
  return open_at(folder.get(), name, O_PATH | O_NOFOLLOW);
}

}  // namespace dsec
