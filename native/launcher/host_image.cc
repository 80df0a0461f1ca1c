#include "launcher/host_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/remove_tree.h"
#include "launcher/host_accounts.h"
#include "launcher/host_configuration.h"

namespace dsec {
namespace {

struct Folder {
  const char* path;
  unsigned mode;
};
constexpr Folder kFolders[] = {
    {"/etc", 0755},         {"/dev", 0755},        {"/proc", 0555},        {"/sys", 0555},
    {"/usr", 0755},         {"/root", 0700},       {"/home", 0755},        {"/work", 0755},
    {"/tmp", 01777},        {"/run", 0755},        {"/run/lock", 01777},   {"/var", 0755},
    {"/var/tmp", 01777},    {"/var/lib", 0755},    {"/var/cache", 0755},   {"/var/log", 0755},
    {"/var/mail", 0755},   {"/var/spool", 0755},  {"/var/backups", 0755}, {"/opt", 0755},
    {"/mnt", 0755},         {"/srv", 0755},        {"/media", 0755},       {"/etc/default", 0755},
    {"/etc/security", 0755}, {"/etc/skel", 0755},
    // Of packages: no sources, nothing installed yet.
    {"/etc/apt", 0755},     {"/etc/apt/apt.conf.d", 0755}, {"/etc/apt/auth.conf.d", 0755},
    {"/etc/apt/keyrings", 0755}, {"/etc/apt/preferences.d", 0755}, {"/etc/apt/sources.list.d", 0755},
    {"/var/lib/apt", 0755}, {"/var/lib/apt/lists", 0755},  {"/var/cache/apt", 0755}, {"/var/log/apt", 0755},
    {"/var/lib/dpkg", 0755}, {"/var/lib/dpkg/alternatives", 0755}, {"/var/lib/dpkg/info", 0755},
    {"/var/lib/dpkg/parts", 0755}, {"/var/lib/dpkg/triggers", 0755}, {"/var/lib/dpkg/updates", 0755},
    // Where the executor mounts something in every sandbox: made in each one's own layer they would take longer than all
    // the mounts together.
    {"/run/dsec", 0755},    {"/dsec", 0755},       {"/dsec/bin", 0755},    {"/dsec/python", 0755}};

struct File {
  const char* path;
  const char* content;
};
constexpr File kFiles[] = {
    {"/etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"},
    {"/etc/host.conf", "multi on\n"},
    {"/etc/resolv.conf", ""},
    // What PAM insists on, without the host's own settings: its limits could not be set here.
    {"/etc/environment", ""},
    {"/etc/default/locale", ""},
    {"/etc/security/limits.conf", ""},
    {"/etc/security/pam_env.conf", ""},
    {"/etc/apt/sources.list", ""},
    {"/var/lib/dpkg/available", ""},
    {"/var/lib/dpkg/status", ""},
    {"/run/dsec/tool.sock", ""},
    {"/run/dsec/ca.pem", ""},
    {"/etc/shells", "/bin/sh\n/bin/bash\n"}};

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

// Read by programs of the group shadow, as everywhere.
Result<void> make_shadow(const std::string& path, const std::string& lines) {
  constexpr gid_t kShadow = 42;
  TRY(make_file(path, lines, 0640));
  if (::chown(path.c_str(), 0, kShadow) != 0) return failed("chown", path);
  return {};
}

}  // namespace

Result<void> make_host_image(const std::string& folder) {
  TRY(remove_tree(AT_FDCWD, folder));
  TRY(make_directory(folder, 0755));
  for (const Folder& inner : kFolders) TRY(make_directory(folder + inner.path, inner.mode));
  for (const File& file : kFiles) TRY(make_file(folder + file.path, file.content, 0644));
  TRY(make_file(folder + "/etc/passwd", account_lines(), 0644));
  TRY(make_file(folder + "/etc/group", group_lines(), 0644));
  TRY(make_shadow(folder + "/etc/shadow", shadow_lines()));
  TRY(make_shadow(folder + "/etc/gshadow", group_shadow_lines()));
  TRY(link_into_usr(folder));
  TRY(copy_configuration("/etc", folder + "/etc"));
  for (const auto& [text, name] : {std::pair{"/usr/share/zoneinfo/Etc/UTC", "/etc/localtime"},
                                   std::pair{"/proc/self/mounts", "/etc/mtab"},
                                   std::pair{"/run", "/var/run"},
                                   std::pair{"/run/lock", "/var/lock"},
                                   std::pair{"/usr/lib/os-release", "/etc/os-release"}}) {
    if (::symlink(text, (folder + name).c_str()) != 0) return failed("symlink", folder + name);
  }
  return {};
}

}  // namespace dsec
