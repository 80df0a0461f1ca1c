/** Linux capabilities by name, from the sets that the kernel shows as 16 hexadecimal digits (proc_pid_status(5)). */

/** By their numbers (capabilities(7), linux/capability.h). */
const NAMES = [
  "chown",
  "dac_override",
  "dac_read_search",
  "fowner",
  "fsetid",
  "kill",
  "setgid",
  "setuid",
  "setpcap",
  "linux_immutable",
  "net_bind_service",
  "net_broadcast",
  "net_admin",
  "net_raw",
  "ipc_lock",
  "ipc_owner",
  "sys_module",
  "sys_rawio",
  "sys_chroot",
  "sys_ptrace",
  "sys_pacct",
  "sys_admin",
  "sys_boot",
  "sys_nice",
  "sys_resource",
  "sys_time",
  "sys_tty_config",
  "mknod",
  "lease",
  "audit_write",
  "audit_control",
  "setfcap",
  "mac_override",
  "mac_admin",
  "syslog",
  "wake_alarm",
  "block_suspend",
  "audit_read",
  "perfmon",
  "bpf",
  "checkpoint_restore",
] as const;

/**
 * What root of a sandbox has over the ids and files of that sandbox, as native/launcher/capabilities.cc keeps them: see
 * docs/decisions/0019.
 */
export const SANDBOX_CAPABILITIES: readonly string[] = [
  "chown",
  "dac_override",
  "fowner",
  "fsetid",
  "kill",
  "setgid",
  "setuid",
];

/** The names in a set, in the order of their numbers; one that has none yet is `capability_N`. */
export function capabilityNames(set: string): string[] {
  const bits = BigInt(`0x${set}`);
  const numbers = Array.from({ length: 64 }, (_, number) => number);
  return numbers
    .filter((number) => (bits >> BigInt(number)) & 1n)
    .map((number) => NAMES[number] ?? `capability_${number}`);
}
