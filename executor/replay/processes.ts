/** The processes of a living sandbox, as this host's kernel tells of them: what they say of themselves is not asked. */
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";
import { pathBelow } from "../cgroups.ts";
import { groupOfProcess } from "../trace/sandbox-cpu.ts";

export type SandboxProcess = {
  /** Within the sandbox. */
  pid: number;
  parent_pid: number;
  /** Of its main thread, as ps(1) writes it: R runs, S and D wait, T is stopped, Z has ended and is not waited for. */
  state: string;
  /** Its program's own word, at most 15 bytes, which it may change. */
  name: string;
  /** As it was started, or has written over it; empty of a zombie. At most `ARGUMENTS_BYTES`. */
  command: string[];
};

const ARGUMENTS_BYTES = 4096;
const SHOWN_PROCESSES = 1_000;

/** In the order of their numbers; none of a sandbox that has ended. @param pid of its init, on the host */
export function listProcesses(pid: number): SandboxProcess[] {
  const group = existing(() => groupOfProcess(pid));
  if (group === null) return [];
  const numbers = new Map<number, number>();
  const found: (SandboxProcess & { hostParent: number })[] = [];
  for (const hostPid of membersOf(group).slice(0, SHOWN_PROCESSES)) {
    const process = processOf(hostPid, group);
    if (process === null) continue;
    numbers.set(hostPid, process.pid);
    found.push(process);
  }
  return found
    .map(({ hostParent, ...process }) => ({ ...process, parent_pid: numbers.get(hostParent) ?? 0 }))
    .sort((one, other) => one.pid - other.pid);
}

/** Of a group and those within it. */
function membersOf(group: string): number[] {
  const own = existing(() => readFileSync(join(group, "cgroup.procs"), "utf8")) ?? "";
  const pids = own.split("\n").filter((line) => line !== "");
  const entries = existing(() => readdirSync(group, { withFileTypes: true })) ?? [];
  const within = entries.filter((entry) => entry.isDirectory());
  return [...pids.map(Number), ...within.flatMap(({ name }) => membersOf(join(group, name)))];
}

/** Null where it has ended; its number may be another's by now. See proc_pid_stat(5), proc_pid_status(5). */
function processOf(hostPid: number, group: string): (SandboxProcess & { hostParent: number }) | null {
  const read = existing(() => ({
    stat: readFileSync(`/proc/${hostPid}/stat`, "utf8"),
    status: readFileSync(`/proc/${hostPid}/status`, "utf8"),
    command: argumentsOf(hostPid),
    group: groupOfProcess(hostPid),
  }));
  if (read === null || read.group === null || pathBelow(group, read.group) === null) return null;
  const { stat, status, command } = read;
  // The name stands in parentheses and may hold some itself.
  const nameEnd = stat.lastIndexOf(")");
  const name = stat.slice(stat.indexOf("(") + 1, nameEnd);
  const [, state = "?", hostParent = "0"] = stat.slice(nameEnd).split(" ");
  const pid = Number(/^NSpid:.*?(\d+)$/m.exec(status)?.[1] ?? 0);
  return { pid, parent_pid: 0, hostParent: Number(hostParent), state, name, command };
}

/** Null where what is read has ended meanwhile. */
function existing<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH" || code === "ENODEV") return null;
    throw error;
  }
}

function argumentsOf(hostPid: number): string[] {
  const file = openSync(`/proc/${hostPid}/cmdline`, "r");
  try {
    const content = Buffer.alloc(ARGUMENTS_BYTES);
    const text = content.toString("utf8", 0, readSync(file, content, 0, content.length, 0));
    return text === "" ? [] : text.replace(/\0+$/, "").split("\0");
  } finally {
    closeSync(file);
  }
}
