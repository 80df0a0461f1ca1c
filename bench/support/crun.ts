/** `crun run` of one command from a static root, with the namespaces of a task's sandbox. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";

/**
 * What has to stand before a program that starts crun, which refuses hosts that have cgroup v1 and v2 side by side: a
 * mount namespace without the second.
 */
export const WHERE_CRUN_RUNS = [
  "unshare",
  ...["--mount", "sh", "-c", 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$0" "$@"'],
] as const;

let started = 0;

/** crun makes no cgroups here, which is faster than with them. `ended` rejects where the command fails. */
export function startCrun(bundle: string): { stdout: Readable; ended: Promise<void> } {
  const id = `dsec-bench-${process.pid}-${started++}`;
  const given = ["--root", join(bundle, "state"), "--cgroup-manager=disabled", "run", "--bundle", bundle, id];
  const child = spawn("crun", given, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "close").then(([code, signal]) => {
    if (code !== 0) throw new Error(`crun run ended with ${code ?? signal}`);
  });
  return { stdout: child.stdout, ended };
}

/** An OCI bundle as close to a task's sandbox as crun has it: all namespaces but user, no capabilities. */
export async function makeBundle(bundle: string, command: string[]): Promise<void> {
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
