#include "launcher/overlay.h"

#include <sys/fsuid.h>

#include "launcher/mounts.h"

namespace dsec {

FileOwner::FileOwner(uint32_t id) {
  ::setfsgid(id);
  ::setfsuid(id);
}

FileOwner::~FileOwner() {
  ::setfsuid(0);
  ::setfsgid(0);
}

Result<Fd> make_overlay(const std::string& lower, const std::string& layer) {
  return make_mount("overlay",
                    {{"lowerdir", lower}, {"upperdir", layer + "/upper"}, {"workdir", layer + "/work"}, {"volatile", ""}},
                    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

}  // namespace dsec
