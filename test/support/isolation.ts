import type { Isolation } from "#core/wire/attestations.ts";

const NONE = "0000000000000000";
/** chown, dac_override, fowner, fsetid, kill, setgid, setuid */
const OVER_OWN_IDS = "00000000000000fb";

/** Isolation as a launcher reads it from the kernel, for tests in which no sandbox ran. */
export const ISOLATION: Isolation = {
  namespaces: {
    pid: "4026532001",
    net: "4026532002",
    mnt: "4026532003",
    uts: "4026532004",
    ipc: "4026532005",
    user: "4026532006",
    cgroup: "4026532007",
  },
  unshared: ["pid", "net", "mnt", "uts", "ipc", "user", "cgroup"],
  seccomp_mode: 2,
  seccomp_filters: 1,
  no_new_privs: true,
  capabilities: {
    effective: OVER_OWN_IDS,
    permitted: OVER_OWN_IDS,
    inheritable: NONE,
    bounding: OVER_OWN_IDS,
    ambient: NONE,
  },
  uid_map: { host_first: 100_000, length: 65_536 },
  cgroup: "v2",
  limits: { cpu_millis: 1000, memory_bytes: 512 * 1024 * 1024, pids: 256, disk_iops: null },
  interfaces: ["lo"],
  root_filesystem: "overlay",
};
