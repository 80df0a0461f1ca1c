/** What the tests of the launcher share: a launcher of their own, short plans, whole outputs, and a look at the host. */
import {
  type Dirent,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import {
  type Launcher,
  type LaunchPlan,
  type Sandbox,
  type SandboxEnd,
  startLauncher,
} from "#native/index.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** How many times slower than a real processor this one may be: above 1 where it is emulated (guest/inside.sh). */
export const SLOWNESS = Number(process.env.DSEC_TEST_SLOWNESS ?? 1);

export type TestLauncher = {
  launcher: Launcher;
  stateDirectory: string;
  [Symbol.asyncDispose](): Promise<void>;
};

/** A launcher over a fresh state folder; disposing closes it and removes the folder. */
export async function testLauncher(): Promise<TestLauncher> {
  const stateDirectory = mkdtempSync(join(tmpdir(), "dsec-native-"));
  const launcher = await startLauncher({ stateDirectory });
  return {
    launcher,
    stateDirectory,
    async [Symbol.asyncDispose]() {
      await launcher.close();
      rmSync(stateDirectory, { recursive: true });
    },
  };
}

export type PlanChanges = Partial<Omit<LaunchPlan, "limits">> & { limits?: Partial<LaunchPlan["limits"]> };

let serial = 0;

export function plan(argv: string[], changes: PlanChanges = {}): LaunchPlan {
  const { limits, ...rest } = changes;
  return {
    id: `t${process.pid}_${++serial}`,
    image: { kind: "host" },
    argv,
    env: {
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      HOME: "/root",
      LANG: "C.UTF-8",
    },
    workingDirectory: "/work",
    stdinPath: null,
    hostname: "sandbox",
    mounts: [],
    // longer than a test may take: also on an emulated processor only a deadline of its own ends a sandbox
    timeoutMs: 300_000,
    ...rest,
    limits: { cpuMillis: 2000, memoryBytes: 512 << 20, pids: 256, diskIops: 0, diskBytes: 0, ...limits },
  };
}

export type Run = { sandbox: Sandbox; end: SandboxEnd; stdout: Buffer; stderr: Buffer };

export async function bytesOf(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Runs to the end and keeps the sandbox, for tests that look into it. */
export async function runKept(launcher: Launcher, argv: string[], changes: PlanChanges = {}): Promise<Run> {
  const sandbox = await launcher.launch(plan(argv, changes));
  const [end, stdout, stderr] = await Promise.all([
    sandbox.ended,
    bytesOf(sandbox.stdout),
    bytesOf(sandbox.stderr),
  ]);
  return { sandbox, end, stdout, stderr };
}

export async function run(launcher: Launcher, argv: string[], changes: PlanChanges = {}): Promise<Run> {
  const result = await runKept(launcher, argv, changes);
  await result.sandbox.destroy();
  return result;
}

export const shell = (script: string): string[] => ["bash", "-c", script];

/**
 * Seconds for a program to sleep, by which its process is known on the host: no program of another test sleeps as long, in
 * this file or in one that runs at the same time.
 */
export const newMark = (): string => `4321${++serial}.${String(process.pid).padStart(7, "0")}`;

/** Host pids whose command line holds the mark, zombies and this process left out. */
export function hostPidsWith(mark: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(mark);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Where a version 1 controller, or else version 2, has its root. */
export function cgroupRoot(controller: string): string {
  const path = join("/sys/fs/cgroup", controller);
  return existsSync(path) ? path : "/sys/fs/cgroup";
}

/** Groups of either version whose names start so, at any depth, less the groups inside them. */
export function cgroupsOf(prefix: string, folder = "/sys/fs/cgroup"): string[] {
  let groups: Dirent[];
  try {
    groups = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  } catch {
    return []; // removed meanwhile
  }
  return groups.flatMap(({ name }) => {
    const path = join(folder, name);
    return name.startsWith(prefix) ? [path] : cgroupsOf(prefix, path);
  });
}

/** The name that a launcher's cgroups start with, as launcher/state_directory.cc makes it. */
export function cgroupPrefixOf(stateDirectory: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const byte of Buffer.from(realpathSync(stateDirectory))) {
    hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  }
  return `dsec-${hash.toString(16).padStart(16, "0")}-`;
}

export type HostTraces = { cgroups: string[]; folders: string[]; mounts: string[] };

/** What a launcher has on the host at this moment, as the host sees it. */
export function tracesOf(stateDirectory: string): HostTraces {
  const sandboxes = join(stateDirectory, "sandboxes");
  return {
    cgroups: cgroupsOf(cgroupPrefixOf(stateDirectory)),
    folders: existsSync(sandboxes) ? readdirSync(sandboxes) : [],
    mounts: readFileSync("/proc/self/mountinfo", "utf8")
      .split("\n")
      .filter((line) => line.includes(stateDirectory)),
  };
}

export const NO_TRACES: HostTraces = { cgroups: [], folders: [], mounts: [] };

/** Where the guest programs and the C++ test programs are, which test/support/native-programs.ts builds. */
export const NATIVE_PROGRAMS = join(ROOT, "build/native");

/** By default long enough for a machine that stands still for seconds; what never comes is told by its name. */
export async function eventually(what: string, condition: () => boolean, withinMs = 30_000): Promise<void> {
  const deadlineMs = Date.now() + withinMs;
  while (!condition()) {
    if (Date.now() > deadlineMs) throw new Error(`within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
