#include "launcher/capabilities.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#ifndef PR_CAP_AMBIENT_CLEAR_ALL
#define PR_CAP_AMBIENT_CLEAR_ALL 4
#endif

namespace dsec {
namespace {

// What package managers, useradd and su need of root. The kernel asks for each of them over ids that the sandbox's user
// namespace maps, and over nothing else: core/capabilities.ts names the same.
constexpr unsigned kKept[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID};

}  // namespace

Result<void> keep_powers_over_own_ids() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("prctl PR_SET_NO_NEW_PRIVS");
  // Ids keep their common meaning: uid 0 has the bounding set at execve, and who becomes another has nothing. None of this
  // can be changed inside.
  constexpr unsigned long kBits = SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                                  SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (::prctl(PR_SET_SECUREBITS, kBits, 0, 0, 0) != 0) return failed("prctl PR_SET_SECUREBITS");
  // EINVAL comes with the first number that this kernel does not know.
  for (unsigned long capability = 0;; capability++) {
    if (std::find(std::begin(kKept), std::end(kKept), capability) != std::end(kKept)) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno == EINVAL && capability > CAP_MAC_ADMIN) break;
    return failed("prctl PR_CAPBSET_DROP", std::to_string(capability));
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return failed("prctl PR_CAP_AMBIENT");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
  for (const unsigned capability : kKept) sets[CAP_TO_INDEX(capability)].permitted |= CAP_TO_MASK(capability);
  for (__user_cap_data_struct& set : sets) set.effective = set.permitted;
  if (::syscall(SYS_capset, &header, sets) != 0) return failed("capset");
  return {};
}

}  // namespace dsec
