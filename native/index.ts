/**
 * The only importable file of `native/`: it speaks to the launcher daemon, which makes the sandboxes, and has the ring
 * through which events are recorded.
 *
 * Node never forks. The addon holds one SEQPACKET socket to the daemon; a plan goes over as a sealed memfd, and
 * the read ends of the sandbox's standard output and error come back as descriptors.
 */
import type { Readable } from "node:stream";
import { BUILD_DIRECTORY } from "./addon.ts";
import { Daemon } from "./daemon.ts";

export { Ring, RingCollector, type RingCounters, type RingRecord } from "./ring.ts";

/** The folder of the programs that every sandbox has: `dsec-tool`. */
export const TOOL_DIRECTORY = `${BUILD_DIRECTORY}bin`;

/** Everything the launcher needs to make one sandbox. Built by the executor as data, carried out in C++. */
export type LaunchPlan = {
  /** Unique on this host while the sandbox lives; names its cgroups and its folder. `[a-z0-9_]{1,64}` */
  id: string;
  /** The lower layer: the host view, or an EROFS image file. */
  image: { kind: "host" } | { kind: "erofs"; path: string };
  argv: string[];
  env: Record<string, string>;
  /** Made (owned by the sandbox's root) when the image lacks it. */
  workingDirectory: string;
  /** A file on the host that becomes standard input; null is /dev/null. */
  stdinPath: string | null;
  hostname: string;
  /** Read-only bind mounts of host files or folders. */
  mounts: { source: string; target: string }[];
  /** TCP ports, four at most, that listen on 127.0.0.1 inside the sandbox and are served from outside it. */
  loopbackPorts?: number[];
  limits: {
    cpuMillis: number;
    memoryBytes: number;
    pids: number;
    /** Read and write operations a second on the disk that holds the upper layer; 0 is no limit. */
    diskIops: number;
    /** Bytes the writable layer may hold; enforced by the launcher. 0 is no limit. */
    diskBytes: number;
  };
  /** The launcher kills every process of the sandbox after this. */
  timeoutMs: number;
};

export type Namespace = "pid" | "net" | "mnt" | "uts" | "ipc" | "user" | "cgroup";

/** What the launcher read from the kernel about pid 1 of the sandbox before its command ran. */
export type Observation = {
  namespaces: Record<Namespace, string>;
  unshared: Namespace[];
  seccompMode: number;
  seccompFilters: number;
  noNewPrivs: boolean;
  capabilities: Record<"effective" | "permitted" | "inheritable" | "bounding" | "ambient", string>;
  uidMap: { hostFirst: number; length: number };
  cgroup: "v1" | "v2";
  limits: {
    cpuMillis: number | null;
    memoryBytes: number | null;
    pids: number | null;
    diskIops: number | null;
  };
  interfaces: string[];
  rootFilesystem: string;
};

/** How the sandbox ended, from waitid(2), the cgroup's event counters, and what the launcher itself did. */
export type SandboxEnd = {
  reason:
    | "exited"
    | "signaled"
    | "timed_out"
    | "oom_killed"
    | "killed"
    | "command_not_found"
    | "command_not_executable"
    | "disk_full";
  /** Exit code of the command, when it exited. */
  exitCode: number | null;
  /** Number of the signal that ended the command, when one did. */
  signal: number | null;
  /** For a command that could not be started: the failing call and its object (`execve /usr/bin/nope: No such file or directory`). */
  message: string | null;
  usage: { cpuUs: number; memoryPeakBytes: number };
  runUs: number;
};

export type Sandbox = {
  readonly id: string;
  readonly observation: Observation;
  readonly launchUs: number;
  /** Pid of the sandbox's init in the launcher's namespace; for looking only. */
  readonly pid: number;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /**
   * A listening TCP socket inside the sandbox's network for each of the plan's `loopbackPorts`, in their order. The
   * descriptors are the caller's to close; a `net.Server` that listens on one closes it with itself.
   */
  readonly listeners: readonly number[];
  /** What its writable layer takes up, to a mebibyte, when that was last measured; at most its bound. */
  readonly diskBytes: number;
  /** Resolves once every process of the sandbox is dead; the writable layer stays until `destroy`. */
  readonly ended: Promise<SandboxEnd>;
  /** Kills every process; `ended` says `killed`. No-op after the end. */
  kill(): void;
  /**
   * Opens a path inside the ended sandbox's file system as the sandbox saw it, links resolved within its root
   * (openat2 RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS), read-only and non-blocking. Regular files only.
   * What was mounted over it (inputs, the host's /usr, /proc, /dev) went with the sandbox and is not seen.
   * Returns a descriptor that the caller closes, or null where there is no such regular file.
   */
  openOutput(path: Uint8Array): number | null;
  /**
   * Entries of a folder inside the ended sandbox, without following a link out of it; none where there is no such folder.
   * They come a few hundred at a time, for a sandbox can make millions.
   */
  listOutput(
    path: Uint8Array,
  ): Iterable<{ name: Uint8Array; kind: "file" | "directory" | "link" | "other" }[]>;
  /** Unmounts and removes everything of the sandbox. Idempotent. */
  destroy(): Promise<void>;
};

export type LauncherOptions = {
  /** Private folder on a local file system for upper layers and the daemon's state; made with mode 0700. */
  stateDirectory: string;
  /** First host uid of the ranges given to sandboxes; each slot takes 65,536. */
  uidBase?: number;
  /** Prefix of cgroup names (`dsec`); clean-up touches only what carries it together with this state folder's name. */
  cgroupPrefix?: string;
};

export type Launcher = {
  launch(plan: LaunchPlan): Promise<Sandbox>;
  /** Those that were launched and of which something is left on the host. */
  readonly sandboxes: Iterable<Sandbox>;
  /** Rejects all that is pending and ends every sandbox, then the daemon. */
  close(): Promise<void>;
  /** Resolves when the daemon ended without being asked to. */
  readonly lost: Promise<Error>;
};

/** Past the ranges that systemd sets aside for containers, and below 2^31: free for 4,096 slots on a stock host. */
const UID_BASE_DEFAULT = 0x7000_0000;

/**
 * Starts the launcher daemon. What an earlier daemon over the same state folder left behind (processes, mounts,
 * cgroups, namespaces, folders) is removed first; a second living daemon on the same folder is refused.
 * Rejects with HOST_UNSUITABLE when the host lacks something, naming it.
 */
export async function startLauncher(options: LauncherOptions): Promise<Launcher> {
  const { stateDirectory, uidBase = UID_BASE_DEFAULT, cgroupPrefix = "dsec" } = options;
  return Daemon.start({ stateDirectory, uidBase, cgroupPrefix });
}
