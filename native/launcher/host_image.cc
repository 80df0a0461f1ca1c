#include "launcher/host_image.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "base/files.h"
#include "base/remove_tree.h"

namespace dsec {
namespace {

struct Folder {
  const char* path;
  unsigned mode;
};
constexpr Folder kFolders[] = {
    {"/etc", 0755},      {"/etc/alternatives", 0755}, {"/etc/ssl", 0755}, {"/etc/ssl/certs", 0755},
    {"/etc/ld.so.conf.d", 0755}, {"/dev", 0755},      {"/proc", 0555},    {"/sys", 0555},
    {"/usr", 0755},      {"/root", 0700},             {"/home", 0755},    {"/work", 0755},
    {"/tmp", 01777},     {"/run", 0755},              {"/var", 0755},     {"/var/tmp", 01777},
    {"/var/lib", 0755},  {"/var/cache", 0755},        {"/var/log", 0755}, {"/opt", 0755},
    {"/mnt", 0755},      {"/srv", 0755},
    // Where the executor mounts something in every sandbox: made in each one's own layer they would take longer than all
    // the mounts together.
    {"/run/dsec", 0755}, {"/dsec", 0755},             {"/dsec/bin", 0755}, {"/dsec/python", 0755}};

struct File {
  const char* path;
  const char* content;
};
constexpr File kFiles[] = {
    {"/etc/passwd",
     "root:x:0:0:root:/root:/bin/bash\n"
     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"/etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"},
    {"/etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"},
    {"/etc/host.conf", "multi on\n"},
    {"/etc/resolv.conf", ""},
    {"/run/dsec/tool.sock", ""},
    {"/run/dsec/ca.pem", ""},
    {"/etc/shells", "/bin/sh\n/bin/bash\n"}};

// What every program may read on any host, and is needed as it is on this one.
constexpr const char* kCopied[] = {"/etc/ld.so.cache", "/etc/ld.so.conf",  "/etc/protocols",
                                   "/etc/services",    "/etc/mime.types",  "/etc/debian_version",
                                   "/etc/ssl/openssl.cnf", "/etc/ssl/certs/ca-certificates.crt"};

struct CloseDirectory {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

// Copies the links of a folder and, when asked, its plain files.
Result<void> copy_entries(const std::string& from, const std::string& to, bool with_files) {
  std::unique_ptr<DIR, CloseDirectory> stream(::opendir(from.c_str()));
  if (!stream) {
    if (errno == ENOENT) return {};
    return failed("opendir", from);
  }
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string source = from + "/" + entry->d_name, target = to + "/" + entry->d_name;
    if (entry->d_type == DT_LNK) {
      TRY_ASSIGN(text, read_link(AT_FDCWD, source));
      if (::symlink(text.c_str(), target.c_str()) != 0) return failed("symlink", target);
    } else if (with_files && entry->d_type == DT_REG) {
      TRY(copy_file_if_present(source, target));
    }
  }
  return {};
}

// /bin, /sbin and /lib* are links into /usr on every current distribution; they are made as the host has them.
Result<void> link_into_usr(const std::string& folder) {
  for (const char* name : {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
    Result<std::string> text = read_link(AT_FDCWD, std::string("/") + name);
    if (!text) {
      if (text.error().number == ENOENT) continue;
      Error error{"host image", std::string("/") + name + " is not a link into /usr: this host is not merged-usr", 0,
                  "HOST_UNSUITABLE"};
      return error;
    }
    const std::string path = folder + "/" + name;
    if (::symlink(text->c_str(), path.c_str()) != 0) return failed("symlink", path);
  }
  return {};
}

}  // namespace

Result<void> make_host_image(const std::string& folder) {
  TRY(remove_tree(AT_FDCWD, folder));
  TRY(make_directory(folder, 0755));
  for (const Folder& inner : kFolders) TRY(make_directory(folder + inner.path, inner.mode));
  for (const File& file : kFiles) TRY(make_file(folder + file.path, file.content, 0644));
  for (const char* path : kCopied) TRY(copy_file_if_present(path, folder + path));
  TRY(link_into_usr(folder));
  TRY(copy_entries("/etc/alternatives", folder + "/etc/alternatives", false));
  TRY(copy_entries("/etc/ld.so.conf.d", folder + "/etc/ld.so.conf.d", true));
  for (const auto& [text, name] : {std::pair{"/usr/share/zoneinfo/Etc/UTC", "/etc/localtime"},
                                   std::pair{"/proc/self/mounts", "/etc/mtab"},
                                   std::pair{"/run", "/var/run"},
                                   std::pair{"/usr/lib/os-release", "/etc/os-release"}}) {
    if (::symlink(text, (folder + name).c_str()) != 0) return failed("symlink", folder + name);
  }
  return {};
}

}  // namespace dsec
