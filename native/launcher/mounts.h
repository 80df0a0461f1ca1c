// The calls of mount_setattr(2), open_tree(2), fsopen(2) and move_mount(2) that the other files are made of.
#pragma once

#include <sys/mount.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace dsec {

struct MountAttributes {
  uint64_t set = 0;
  int user_namespace = -1;  // with MOUNT_ATTR_IDMAP
};

using MountOptions = std::vector<std::pair<std::string, std::string>>;

// A detached copy of the mount at the path, without what is mounted below it.
Result<Fd> clone_mount(int directory, const std::string& path);

// An empty path means the mount that `directory` is.
Result<void> set_mount_attributes(int directory, const std::string& path, MountAttributes attributes);

// A detached copy, read-only, nosuid, nodev, with its owners seen through the user namespace. File systems that cannot
// map ids (EINVAL) are given as they are: their owners show as nobody.
Result<Fd> clone_read_only(const std::string& path, int user_namespace);

Result<void> attach_mount(int mount, const std::string& target);
Result<void> attach_mount_at(int mount, int target);

// A detached mount and where it belongs, relative to a sandbox's root.
struct PlacedMount {
  Fd mount;
  std::string target;
};

// Makes a file system and returns its detached mount. An option with an empty value is a flag.
Result<Fd> make_mount(const char* type, const MountOptions& options, unsigned attributes);
Result<void> mount_new(const char* type, const MountOptions& options, unsigned attributes, const char* target);

}  // namespace dsec
