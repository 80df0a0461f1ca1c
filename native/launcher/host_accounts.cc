#include "launcher/host_accounts.h"

namespace dsec {
namespace {

struct Account {
  const char* name;
  int uid, gid;
  const char *home, *shell;
};
constexpr const char* kNoLogin = "/usr/sbin/nologin";
constexpr Account kAccounts[] = {{"root", 0, 0, "/root", "/bin/bash"},
                                 {"daemon", 1, 1, "/usr/sbin", kNoLogin},
                                 {"bin", 2, 2, "/bin", kNoLogin},
                                 {"sys", 3, 3, "/dev", kNoLogin},
                                 {"sync", 4, 65534, "/bin", "/bin/sync"},
                                 {"games", 5, 60, "/usr/games", kNoLogin},
                                 {"man", 6, 12, "/var/cache/man", kNoLogin},
                                 {"lp", 7, 7, "/var/spool/lpd", kNoLogin},
                                 {"mail", 8, 8, "/var/mail", kNoLogin},
                                 {"news", 9, 9, "/var/spool/news", kNoLogin},
                                 {"uucp", 10, 10, "/var/spool/uucp", kNoLogin},
                                 {"proxy", 13, 13, "/bin", kNoLogin},
                                 {"www-data", 33, 33, "/var/www", kNoLogin},
                                 {"backup", 34, 34, "/var/backups", kNoLogin},
                                 {"list", 38, 38, "/var/list", kNoLogin},
                                 {"irc", 39, 39, "/run/ircd", kNoLogin},
                                 {"_apt", 42, 65534, "/nonexistent", kNoLogin},
                                 {"nobody", 65534, 65534, "/nonexistent", kNoLogin}};

struct Group {
  const char* name;
  int gid;
};
constexpr Group kGroups[] = {
    {"root", 0},     {"daemon", 1},  {"bin", 2},       {"sys", 3},       {"adm", 4},   {"tty", 5},    {"disk", 6},
    {"lp", 7},       {"mail", 8},    {"news", 9},      {"uucp", 10},     {"man", 12},  {"proxy", 13}, {"kmem", 15},
    {"dialout", 20}, {"fax", 21},    {"voice", 22},    {"cdrom", 24},    {"floppy", 25}, {"tape", 26}, {"sudo", 27},
    {"audio", 29},   {"dip", 30},    {"www-data", 33}, {"backup", 34},   {"operator", 37}, {"list", 38}, {"irc", 39},
    {"src", 40},     {"shadow", 42}, {"utmp", 43},     {"video", 44},    {"sasl", 45}, {"plugdev", 46}, {"staff", 50},
    {"games", 60},   {"users", 100}, {"nogroup", 65534}};

}  // namespace

std::string account_lines() {
  std::string lines;
  for (const Account& account : kAccounts) {
    lines += std::string(account.name) + ":x:" + std::to_string(account.uid) + ":" + std::to_string(account.gid) + ":" +
             account.name + ":" + account.home + ":" + account.shell + "\n";
  }
  return lines;
}

std::string group_lines() {
  std::string lines;
  for (const Group& group : kGroups) lines += std::string(group.name) + ":x:" + std::to_string(group.gid) + ":\n";
  return lines;
}

std::string shadow_lines() {
  std::string lines;
  // A day long past: a password that was never changed would have to be at the first use.
  for (const Account& account : kAccounts) lines += std::string(account.name) + ":*:19000:0:99999:7:::\n";
  return lines;
}

std::string group_shadow_lines() {
  std::string lines;
  for (const Group& group : kGroups) lines += std::string(group.name) + ":*::\n";
  return lines;
}

}  // namespace dsec
