#include "launcher/images.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "launcher/mounts.h"

namespace dsec {
namespace {

constexpr size_t kImagesKept = 64;
constexpr unsigned kAttributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

// A loop device that frees itself when its last user goes, so that no death of ours can leave it behind.
Result<Fd> attach_loop_device(int file, std::string& path) {
  Result<Fd> control = open_at(AT_FDCWD, "/dev/loop-control", O_RDWR);
  if (!control) {
    return Error{"open", "/dev/loop-control (before Linux 6.12 images need loop devices: modprobe loop)",
                 control.error().number, "HOST_UNSUITABLE"};
  }
  for (int attempt = 0; attempt < 64; attempt++) {
    int number = ::ioctl(control->get(), LOOP_CTL_GET_FREE);
    if (number < 0) return failed("ioctl LOOP_CTL_GET_FREE");
    path = "/dev/loop" + std::to_string(number);
    TRY_ASSIGN(device, open_at(AT_FDCWD, path, O_RDONLY));
    loop_config config{};
    config.fd = static_cast<uint32_t>(file);
    config.info.lo_flags = LO_FLAGS_READ_ONLY | LO_FLAGS_AUTOCLEAR;
    if (::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) return device;
    // Somebody else took the free device first.
    if (errno != EBUSY) return failed("ioctl LOOP_CONFIGURE", path);
  }
  return Error{"ioctl LOOP_CONFIGURE", "/dev/loop-control", EBUSY};
}

Result<Fd> mount_erofs(const std::string& path, int file) {
  // Kernels from 6.12 read the file itself; older ones want a block device (ENOTBLK).
  Result<Fd> direct = make_mount("erofs", {{"source", path}, {"ro", ""}}, kAttributes);
  if (direct) return direct;
  if (direct.error().number == ENODEV) {
    return Error{"fsopen", "erofs (not in this kernel: modprobe erofs)", ENODEV, "HOST_UNSUITABLE"};
  }
  if (direct.error().number != ENOTBLK) return std::move(direct).error().with_code("IMAGE_INVALID");
  std::string loop;
  TRY_ASSIGN(device, attach_loop_device(file, loop));
  Result<Fd> mount = make_mount("erofs", {{"source", loop}, {"ro", ""}}, kAttributes);
  if (!mount) return std::move(mount).error().with_code("IMAGE_INVALID");
  return mount;
}

}  // namespace

Result<const Image*> Images::erofs(const std::string& path) {
  Result<Fd> file = open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
  if (!file) return std::move(file).error().with_code("IMAGE_NOT_FOUND");
  struct stat status{};
  if (::fstat(file->get(), &status) != 0) return failed("fstat", path);
  if (!S_ISREG(status.st_mode)) return Error{"image", path + " is not a regular file", 0, "IMAGE_INVALID"};
  const Key key{status.st_dev, status.st_ino, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec,
                status.st_size};
  if (auto found = erofs_.find(key); found != erofs_.end()) {
    found->second.used = ++uses_;
    return &found->second.image;
  }
  TRY_ASSIGN(mount, mount_erofs(path, file->get()));
  Image image{next_++, "", false};
  image.folder = "i" + std::to_string(image.number);
  TRY(make_directory(image.folder, 0700));
  TRY(attach_mount(mount.get(), image.folder));
  return &erofs_.emplace(key, Mounted{std::move(image), ++uses_}).first->second.image;
}

std::optional<Image> Images::evict() {
  if (erofs_.size() <= kImagesKept) return std::nullopt;
  auto oldest = std::min_element(erofs_.begin(), erofs_.end(),
                                 [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
  Image image = std::move(oldest->second.image);
  erofs_.erase(oldest);
  ::umount2(image.folder.c_str(), MNT_DETACH);
  ::rmdir(image.folder.c_str());
  return image;
}

}  // namespace dsec
