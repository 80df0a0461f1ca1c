#include "launcher/host_configuration.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/files.h"

namespace dsec {
namespace {

// Names in /etc, as fnmatch(3) takes them; with a slash, a name in a folder of which nothing else is taken.
constexpr const char* kKinds[] = {
    // which of several programs a name stands for, the loader, tables of the C library
    "alternatives", "ld.so.*", "ld-musl-*", "gai.conf", "locale.alias", "ethertypes", "netconfig", "protocols", "rpc",
    "services", "debian_version", "lsb-release", "xattr.conf",
    // certificate authorities
    "ssl", "pki", "ca-certificates", "ca-certificates.conf",
    // languages and their libraries
    "java", "java-*", ".java", "python[0-9]*", "perl", "php", "ruby*", "lua*", "ghc*", "R", "octave*", "julia", "erlang",
    "emacs", "vim", "texmf", "sgml", "xml", "maven/m2.conf", "maven/logging", "ant*",
    // kinds of files, fonts, pictures, screens
    "magic", "magic.mime", "mime.types", "fonts", "X11", "gtk-*", "glvnd", "OpenCL", "vulkan", "ImageMagick-*",
    "terminfo", "groff", "papersize",
    // accounts and packages
    "login.defs", "default/useradd", "adduser.conf", "deluser.conf", "pam.d", "pam.conf", "dpkg", "debconf.conf",
    "ucf.conf", "apt/trusted.gpg.d", "mke2fs.conf", "iproute2"};

// Within these too. The authorities' certificates are named *.pem or *.crt; a key can be named so as well: see holds_key.
constexpr const char* kNever[] = {"private", "keys", "*.key", "*.jks", "*.p12", "*.pfx", "*.keytab", "*.kdbx",
                                  "*.password", "*.passwords", "*htpasswd*", "*secret*", "*credential*", "*token*",
                                  "shadow*", "gshadow*", "opasswd*", "*~", "*.bak", "*.dpkg-*"};

constexpr int kDepthMax = 8;
constexpr off_t kFileBytesMax = 4 << 20;

struct CloseDirectory {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

bool matches(const char* pattern, const std::string& name) { return ::fnmatch(pattern, name.c_str(), FNM_PERIOD) == 0; }

enum class Choice { kNothing, kWithin, kAll };

// Of a name in /etc or, with a slash, in a folder there.
Choice choose(const std::string& path) {
  const size_t slash = path.find('/');
  for (const std::string kind : kKinds) {
    const size_t split = kind.find('/');
    if (!matches(kind.substr(0, split).c_str(), path.substr(0, slash))) continue;
    if (split == std::string::npos) return Choice::kAll;
    if (slash == std::string::npos) return Choice::kWithin;
    if (matches(kind.c_str() + split + 1, path.substr(slash + 1))) return Choice::kAll;
  }
  return Choice::kNothing;
}

bool is_secret_by_name(const std::string& name) {
  return std::any_of(std::begin(kNever), std::end(kNever),
                     [&](const char* pattern) { return ::fnmatch(pattern, name.c_str(), FNM_CASEFOLD) == 0; });
}

bool holds_key(const std::string& content) { return content.find("PRIVATE KEY-----") != std::string::npos; }

class Copy {
 public:
  Copy(const std::string& from, const std::string& to) : from_(from), to_(to) {}

  // `path` is below /etc and ends with a slash, or is empty for /etc itself.
  Result<void> folder(const std::string& path, Choice choice, int depth) {
    std::unique_ptr<DIR, CloseDirectory> stream(::opendir((from_ + "/" + path).c_str()));
    if (!stream) {
      if (errno == ENOENT) return {};
      return failed("opendir", from_ + "/" + path);
    }
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == ".." || is_secret_by_name(name)) continue;
      const Choice chosen = choice == Choice::kAll ? choice : choose(path + name);
      if (chosen != Choice::kNothing) TRY(one(path + name, chosen, depth));
    }
    return {};
  }

 private:
  Result<void> one(const std::string& path, Choice choice, int depth) {
    const std::string source = from_ + "/" + path, target = to_ + "/" + path;
    struct stat status{};
    // What goes while its folder is read is not there.
    if (::lstat(source.c_str(), &status) != 0) return {};
    if (S_ISDIR(status.st_mode) && (status.st_mode & 05) == 05 && depth < kDepthMax) {
      TRY(make_directory(target, 0755));
      return folder(path + "/", choice, depth + 1);
    }
    if (choice != Choice::kAll) return {};
    if (S_ISLNK(status.st_mode)) {
      TRY_ASSIGN(text, read_link(AT_FDCWD, source));
      if (::symlink(text.c_str(), target.c_str()) != 0) return failed("symlink", target);
    }
    if (!S_ISREG(status.st_mode) || (status.st_mode & 04) == 0 || status.st_size > kFileBytesMax) return {};
    Result<std::string> content = read_file(AT_FDCWD, source);
    if (!content) return {};
    if (holds_key(*content)) return {};
    return make_file(target, *content, status.st_mode & 0755);
  }

  const std::string& from_;
  const std::string& to_;
};

}  // namespace

Result<void> copy_configuration(const std::string& from, const std::string& to) {
  return Copy(from, to).folder("", Choice::kWithin, 0);
}

}  // namespace dsec
