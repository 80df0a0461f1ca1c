import { existsSync } from "node:fs";
import { arch, hostname, release } from "node:os";
import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Evidence, Isolation, TraceSummary } from "#core/wire/attestations.ts";
import type { Enrolment } from "#core/wire/executors.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { Result, Stream } from "#core/wire/tasks.ts";
import type { Observation, SandboxEnd } from "#native/index.ts";
import packageJson from "../package.json" with { type: "json" };
import type { ChannelRecord } from "./channel/channel.ts";
import { contentDigest } from "./content-digest.ts";

/** Name and version of this executor's code, as enrolment and evidence give it. */
export const BUILD = `dsec ${packageJson.version}`;

export type HostInfo = Enrolment["host"];

/** What there is to say of a sandbox that lived. */
export type Lived = { observation: Observation; launchUs: number; end: SandboxEnd };

/** The evidence of one attempt: what it was asked, where it ran, what was observed and what came of it. */
export function buildEvidence(facts: {
  lease: Lease;
  executorId: string;
  host: HostInfo;
  imageDigest: Digest;
  lived: Lived | null;
  result: Result;
  /** Null where the attempt had no sandbox. */
  channel: ChannelRecord | null;
}): Evidence {
  const { lease, lived } = facts;
  const { spec } = lease;
  return {
    profile: "urn:dsec:evidence:1",
    task_id: lease.task_id,
    lease_id: lease.lease_id,
    fence: lease.fence,
    attempt: lease.attempt,
    executor_id: facts.executorId,
    build: BUILD,
    host: facts.host,
    spec_digest: lease.spec_digest,
    nonce: spec.nonce,
    image: { name: spec.image, digest: facts.imageDigest },
    resources: spec.resources,
    isolation: lived && isolationOf(lived.observation),
    result: facts.result,
    calls: facts.channel?.calls ?? { count: 0, receipts_root: null },
    trace: facts.channel && summaryOf(facts.channel.trace),
    durations_us: { launch: Math.round(lived?.launchUs ?? 0), run: Math.round(lived?.end.runUs ?? 0) },
    usage: lived && {
      cpu_us: Math.round(lived.end.usage.cpuUs),
      memory_peak_bytes: lived.end.usage.memoryPeakBytes,
    },
  };
}

/** Where it lies on this host is nobody's affair. */
function summaryOf({ count, chain_head, digest, size }: ChannelRecord["trace"]): TraceSummary {
  return { count, chain_head, digest, size };
}

/** What a stream that nothing was written to leaves. */
export const EMPTY_STREAM: Stream = {
  digest: contentDigest(""),
  kept_bytes: 0,
  total_bytes: 0,
};

export function describeHost(): HostInfo {
  return {
    hostname: hostname().slice(0, 255),
    kernel: release(),
    // A host whose controllers are on v2 has no v1 memory hierarchy mounted (cgroups(7)).
    cgroup: existsSync("/sys/fs/cgroup/memory/memory.limit_in_bytes") ? "v1" : "v2",
    arch: arch(),
  };
}

/** Text of ours for people, within the wire's bounds: no NUL, no lone surrogates, not too long. */
export function wireText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\\u0000").slice(0, LIMITS.errorTextChars).toWellFormed();
}

function isolationOf(observed: Observation): Isolation {
  return {
    namespaces: {
      pid: inodeOf(observed.namespaces.pid),
      net: inodeOf(observed.namespaces.net),
      mnt: inodeOf(observed.namespaces.mnt),
      uts: inodeOf(observed.namespaces.uts),
      ipc: inodeOf(observed.namespaces.ipc),
      user: inodeOf(observed.namespaces.user),
      cgroup: inodeOf(observed.namespaces.cgroup),
    },
    unshared: observed.unshared,
    seccomp_mode: observed.seccompMode,
    seccomp_filters: observed.seccompFilters,
    no_new_privs: observed.noNewPrivs,
    capabilities: observed.capabilities,
    uid_map: { host_first: observed.uidMap.hostFirst, length: observed.uidMap.length },
    cgroup: observed.cgroup,
    limits: {
      cpu_millis: observed.limits.cpuMillis,
      memory_bytes: observed.limits.memoryBytes,
      pids: observed.limits.pids,
      disk_iops: observed.limits.diskIops,
    },
    interfaces: observed.interfaces,
    root_filesystem: observed.rootFilesystem,
  };
}

/** The inode number of a namespace, which readlink(2) of /proc/PID/ns gives as `pid:[4026531836]` (namespaces(7)). */
function inodeOf(link: string): string {
  return /\d+/.exec(link)?.[0] ?? link;
}
