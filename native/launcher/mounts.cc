#include "launcher/mounts.h"

#include <fcntl.h>
#include <unistd.h>

namespace dsec {
namespace {

// The context of fsopen(2) tells in words what errno cannot.
std::string context_message(int context) {
  char buffer[512];
  ssize_t count = ::read(context, buffer, sizeof buffer);
  if (count <= 2) return {};
  std::string text(buffer + 2, static_cast<size_t>(count) - 2);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return " (" + text + ")";
}

Error context_failed(int context, const char* call, const std::string& object) {
  Error error = failed(call, object);
  error.object += context_message(context);
  return error;
}

}  // namespace

Result<Fd> clone_mount(int directory, const std::string& path) {
  unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (path.empty() ? AT_EMPTY_PATH : 0u);
  int number = ::open_tree(directory, path.c_str(), flags);
  if (number < 0) return failed("open_tree", path);
  return Fd(number);
}

Result<void> set_mount_attributes(int directory, const std::string& path, MountAttributes attributes) {
  mount_attr request{};
  request.attr_set = attributes.set;
  if (attributes.user_namespace >= 0) {
    request.attr_set |= MOUNT_ATTR_IDMAP;
    request.userns_fd = static_cast<uint64_t>(attributes.user_namespace);
  }
  unsigned flags = path.empty() ? AT_EMPTY_PATH : 0;
  if (::mount_setattr(directory, path.c_str(), flags, &request, sizeof request) != 0) {
    return failed("mount_setattr", path);
  }
  return {};
}

Result<Fd> clone_read_only(const std::string& path, int user_namespace) {
  TRY_ASSIGN(mount, clone_mount(AT_FDCWD, path));
  constexpr uint64_t kGuard = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  Result<void> mapped = set_mount_attributes(mount.get(), "", {.set = kGuard, .user_namespace = user_namespace});
  if (mapped) return mount;
  if (mapped.error().number != EINVAL) return std::move(mapped).error();
  TRY(set_mount_attributes(mount.get(), "", {.set = kGuard}));
  return mount;
}

Result<void> attach_mount(int mount, const std::string& target) {
  if (::move_mount(mount, "", AT_FDCWD, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return failed("move_mount", target);
  }
  return {};
}

Result<void> attach_mount_at(int mount, int target) {
  if (::move_mount(mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0) {
    return failed("move_mount");
  }
  return {};
}

Result<Fd> make_mount(const char* type, const MountOptions& options, unsigned attributes) {
  Fd context(::fsopen(type, FSOPEN_CLOEXEC));
  if (!context) return failed("fsopen", type);
  for (const auto& [name, value] : options) {
    int result = value.empty() ? ::fsconfig(context.get(), FSCONFIG_SET_FLAG, name.c_str(), nullptr, 0)
                               : ::fsconfig(context.get(), FSCONFIG_SET_STRING, name.c_str(), value.c_str(), 0);
    if (result != 0) return context_failed(context.get(), "fsconfig", std::string(type) + " " + name + "=" + value);
  }
  if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return context_failed(context.get(), "fsconfig CMD_CREATE", type);
  }
  int number = ::fsmount(context.get(), FSMOUNT_CLOEXEC, attributes);
  if (number < 0) return context_failed(context.get(), "fsmount", type);
  return Fd(number);
}

Result<void> mount_new(const char* type, const MountOptions& options, unsigned attributes, const char* target) {
  TRY_ASSIGN(mount, make_mount(type, options, attributes));
  return attach_mount(mount.get(), target);
}

}  // namespace dsec
