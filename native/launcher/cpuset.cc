#include "launcher/cpuset.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "base/files.h"
#include "launcher/cgroup.h"

namespace dsec {
namespace {

// Of lines "name<separator>value" the value of the one with this name.
std::string line_after(const std::string& text, const std::string& name) {
  const size_t at = text.find(name);
  return at == std::string::npos ? "" : text.substr(at + name.size(), text.find('\n', at) - at - name.size());
}

// Where the hierarchy is mounted whole, from proc_pid_mountinfo(5).
std::string mount_point() {
  Result<std::string> mounts = read_file(AT_FDCWD, "/proc/self/mountinfo");
  std::stringstream lines(mounts ? *mounts : "");
  for (std::string line; std::getline(lines, line);) {
    const size_t dash = line.find(" - cgroup ");
    if (dash == std::string::npos || !line.ends_with(",cpuset")) continue;
    std::string skip, root, path;
    std::stringstream(line) >> skip >> skip >> skip >> root >> path;
    if (root == "/") return path;
  }
  return {};
}

}  // namespace

std::shared_ptr<Cpuset> Cpuset::enter(const std::string& name) {
  const std::string mount = mount_point();
  Result<std::string> membership = read_file(AT_FDCWD, "/proc/self/cgroup"), status = read_file(AT_FDCWD, "/proc/self/status");
  if (mount.empty() || !membership || !status) return nullptr;
  std::shared_ptr<Cpuset> cpuset(new Cpuset);
  cpuset->path_ = mount + "/" + name;
  // An earlier launcher may have left it.
  if (!remove_cgroup(cpuset->path_) || ::mkdir(cpuset->path_.c_str(), 0755) != 0) return nullptr;
  const Result<void> entered = [&]() -> Result<void> {
    TRY_ASSIGN(earlier, open_at(AT_FDCWD, mount + line_after(*membership, ":cpuset:") + "/tasks", O_WRONLY));
    TRY_ASSIGN(directory, open_at(AT_FDCWD, cpuset->path_, O_RDONLY | O_DIRECTORY));
    TRY(write_file(directory.get(), "cpuset.cpus", line_after(*status, "Cpus_allowed_list:\t")));
    TRY(write_file(directory.get(), "cpuset.mems", line_after(*status, "Mems_allowed_list:\t")));
    TRY(write_file(directory.get(), "tasks", "0"));
    cpuset->directory_ = std::move(directory);
    cpuset->earlier_ = std::move(earlier);
    return {};
  }();
  return entered ? cpuset : nullptr;
}

Cpuset::~Cpuset() {
  if (earlier_) (void)!::write(earlier_.get(), "0", 1);
  ::rmdir(path_.c_str());
}

}  // namespace dsec
