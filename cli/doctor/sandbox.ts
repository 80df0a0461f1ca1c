import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { capabilityNames, SANDBOX_CAPABILITIES } from "#core/capabilities.ts";
import { startLauncher } from "#native/index.ts";
import { dataFolder } from "../data-folder.ts";
import { type Check, fail, ok } from "./check.ts";

const NAMESPACES = 7;

/** The proof of all the rest: a sandbox on this host, in the data folder's file system, and what the kernel says of it. */
export async function checkSandbox(data: string): Promise<Check[]> {
  if (process.geteuid?.() !== 0)
    return [fail("sandbox", "not tried without root", "run dsec doctor as root")];
  const folder = mkdtempSync(join(existing(dataFolder(data).path), ".dsec-doctor-"));
  try {
    const launcher = await startLauncher({
      stateDirectory: join(folder, "state"),
      cgroupPrefix: "dsec-doctor",
    });
    try {
      const sandbox = await launcher.launch({
        id: "doctor",
        image: { kind: "host" },
        argv: ["/usr/bin/true"],
        env: {},
        workingDirectory: "/work",
        stdinPath: null,
        hostname: "doctor",
        mounts: [],
        limits: { cpuMillis: 500, memoryBytes: 64 << 20, pids: 16, diskIops: 0, diskBytes: 0 },
        timeoutMs: 10_000,
      });
      sandbox.stdout.resume();
      sandbox.stderr.resume();
      const end = await sandbox.ended;
      await sandbox.destroy();
      const { observation, launchUs } = sandbox;
      if (end.reason !== "exited" || end.exitCode !== 0) {
        return [
          fail(
            "sandbox",
            `true ended as ${end.reason} ${end.exitCode ?? ""} ${end.message ?? ""}`.trim(),
            "see the other findings",
          ),
        ];
      }
      const { effective, permitted, inheritable, bounding, ambient } = observation.capabilities;
      const held = [effective, permitted, inheritable, bounding, ambient].flatMap(capabilityNames);
      const more = [...new Set(held)].filter((name) => !SANDBOX_CAPABILITIES.includes(name));
      const found =
        `started in ${(launchUs / 1000).toFixed(1)} ms: ${observation.unshared.length} of ${NAMESPACES} namespaces of its own, ` +
        `seccomp mode ${observation.seccompMode}, ${more.length === 0 ? "capabilities over its own ids alone" : `capabilities left: ${more.join(", ")}`}, interfaces ${observation.interfaces.join(", ")}`;
      if (
        observation.unshared.length < NAMESPACES ||
        observation.seccompMode !== 2 ||
        more.length > 0 ||
        !observation.noNewPrivs
      ) {
        return [fail("sandbox", found, "this kernel does not isolate as it must; do not run tasks on it")];
      }
      return [ok("sandbox", found)];
    } finally {
      await launcher.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * The folder itself, which may be a file system of its own; where DSec has not been started yet, the nearest one above it
 * that is there, so that none is made.
 */
function existing(path: string): string {
  return existsSync(path) ? path : existing(dirname(path));
}
