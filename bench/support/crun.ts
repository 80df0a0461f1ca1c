/**
 * `crun.ts BUNDLE WARM_UP COUNT COMMAND…`: prints, as JSON, the milliseconds from each spawn of `crun run` to its first
 * byte. A program of its own because crun refuses hosts that have cgroup v1 and v2 side by side: the benchmark starts
 * it in a mount namespace without the second. crun makes no cgroups here, which is faster than with them.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

const [bundle, warmUp, count, ...command] = process.argv.slice(2) as [string, string, string, ...string[]];
await makeBundle();
const samples: number[] = [];
for (let i = 0; i < Number(warmUp) + Number(count); i++) {
  const sample = await firstByte(`dsec-bench-${process.pid}-${i}`);
  if (i >= Number(warmUp)) samples.push(sample);
}
console.log(JSON.stringify(samples));

async function firstByte(id: string): Promise<number> {
  const startedMs = performance.now();
  const child = spawn("crun", ["--cgroup-manager=disabled", "run", "--bundle", bundle, id], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "close");
  const first = await Promise.race([once(child.stdout, "data").then(() => performance.now()), ended]);
  if (typeof first !== "number") throw new Error("crun run gave no output");
  await ended;
  return first - startedMs;
}

/** An OCI bundle as close to a task's sandbox as crun has it: all namespaces but user, no capabilities. */
async function makeBundle(): Promise<void> {
  for (const folder of ["bin", "proc", "dev"])
    await mkdir(join(bundle, "rootfs", folder), { recursive: true });
  await copyFile("/bin/busybox", join(bundle, "rootfs/bin/busybox"));
  await symlink("busybox", join(bundle, "rootfs/bin/echo"));
  const config = {
    ociVersion: "1.0.0",
    process: {
      user: { uid: 0, gid: 0 },
      args: command,
      env: ["PATH=/bin"],
      cwd: "/",
      noNewPrivileges: true,
    },
    root: { path: "rootfs", readonly: true },
    mounts: [
      { destination: "/proc", type: "proc", source: "proc" },
      { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "mode=755"] },
    ],
    linux: {
      namespaces: ["pid", "network", "ipc", "uts", "mount", "cgroup"].map((type) => ({ type })),
    },
  };
  await writeFile(join(bundle, "config.json"), JSON.stringify(config));
}
