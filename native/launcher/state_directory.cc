#include "launcher/state_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <memory>

#include "base/files.h"
#include "base/remove_tree.h"

namespace dsec {

Result<StateDirectory> StateDirectory::open(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed("mkdir", path).with_code("HOST_UNSUITABLE");
  std::unique_ptr<char, decltype(&::free)> real(::realpath(path.c_str(), nullptr), &::free);
  if (!real) return failed("realpath", path);
  StateDirectory state;
  state.path_ = real.get();
  // The layers hold files that a sandbox made, set-user-ID ones among them: nobody but root may reach them.
  if (::chmod(state.path_.c_str(), 0700) != 0) return failed("chmod", state.path_);
  TRY_ASSIGN(lock, open_at(AT_FDCWD, state.path_ + "/lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  // One that was killed a moment ago may still be dying.
  constexpr int kAttempts = 100;
  constexpr useconds_t kPauseUs = 10'000;
  int attempt = 0;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return failed("flock", state.path_ + "/lock");
    ::usleep(kPauseUs);
    if (++attempt < kAttempts) continue;
    return Error{"state directory", state.path_ + " belongs to another living launcher; give each its own", 0,
                 "HOST_UNSUITABLE"};
  }
  state.lock_ = std::move(lock);
  return state;
}

std::string StateDirectory::hash() const {
  // FNV-1a, 64 bits: tells folders apart, protects nothing.
  uint64_t hash = 0xcbf29ce484222325;
  for (char letter : path_) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  char text[17];
  std::snprintf(text, sizeof text, "%016lx", static_cast<unsigned long>(hash));
  return text;
}

Result<std::string> StateDirectory::disk() const {
  struct stat status{};
  if (::stat(path_.c_str(), &status) != 0) return failed("stat", path_);
  const std::string device = std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  const std::string folder = "/sys/dev/block/" + device;
  if (::access(folder.c_str(), F_OK) != 0) {
    return Error{"disk IOPS", path_ + " lies on no block device of its own, so they cannot be limited", 0,
                 "HOST_UNSUITABLE"};
  }
  if (::access((folder + "/partition").c_str(), F_OK) != 0) return device;
  TRY_ASSIGN(whole, read_file(AT_FDCWD, folder + "/../dev"));
  while (!whole.empty() && whole.back() == '\n') whole.pop_back();
  return whole;
}

Result<void> StateDirectory::reset() const {
  TRY(remove_tree(AT_FDCWD, sandboxes()));
  TRY(make_directory(sandboxes(), 0700));
  TRY(remove_tree(AT_FDCWD, blanks()));
  TRY(make_directory(blanks(), 0700));
  return make_directory(mounts(), 0700);
}

Result<void> StateDirectory::clear() const {
  TRY(remove_tree(AT_FDCWD, sandboxes()));
  TRY(remove_tree(AT_FDCWD, blanks()));
  TRY(remove_tree(AT_FDCWD, host_image()));
  if (::rmdir(mounts().c_str()) != 0 && errno != ENOENT) return failed("rmdir", mounts());
  return {};
}

}  // namespace dsec
