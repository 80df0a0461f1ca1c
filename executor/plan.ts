import { fileURLToPath } from "node:url";
import { DsecError } from "#core/errors.ts";
import { axisThatDoesNotFit, INSUFFICIENT, type Resources, WIRE_NAME } from "#core/resources.ts";
import { fromWire } from "#core/wire/common.ts";
import { type Hold, HoldSchema, type Lease } from "#core/wire/leases.ts";
import { type LaunchPlan, TOOL_DIRECTORY } from "#native/index.ts";

/** What a command finds in its environment when the task does not say otherwise. */
export const DEFAULT_ENVIRONMENT = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/root",
  LANG: "C.UTF-8",
};

/** Where the channel's socket is in every sandbox. */
const SOCKET_PATH = "/run/dsec/tool.sock";
/** Python's way to the socket: `import dsec`. */
const PYTHON_DIRECTORY = fileURLToPath(new URL("../sdk/python", import.meta.url));

const MEBIBYTE = 1024 * 1024;

/**
 * The plan of one attempt, as data. The resources are judged once more against what is free on this host now:
 * INSUFFICIENT_… here means that the host has less than it offered, and nothing has been created yet: see `isInsufficient`.
 */
export function planLaunch(
  lease: Lease,
  prepared: {
    image: LaunchPlan["image"];
    /** host paths of the inputs, in the order of the spec */
    inputPaths: string[];
    stdinPath: string | null;
    /** the channel's socket on the host */
    socketPath: string;
    /** what the channel offers by the environment */
    environment: Record<string, string>;
    free: Resources;
  },
): LaunchPlan {
  const { spec } = lease;
  const asked = fromWire(spec.resources);
  const axis = axisThatDoesNotFit(asked, prepared.free);
  if (axis !== undefined) {
    throw new DsecError(
      INSUFFICIENT[axis],
      `task ${lease.task_id} asks for ${WIRE_NAME[axis]} ${asked[axis]}${axis === "cpu_millis" ? "m" : ""}, ` +
        `but this host has only ${prepared.free[axis]} left`,
      { details: { axis: WIRE_NAME[axis], asked: asked[axis], free: prepared.free[axis] } },
    );
  }
  return {
    id: sandboxId(lease),
    image: prepared.image,
    argv: spec.command,
    env: environmentOf(lease, prepared.environment),
    workingDirectory: spec.working_directory,
    stdinPath: prepared.stdinPath,
    hostname: "sandbox",
    mounts: [
      { source: prepared.socketPath, target: SOCKET_PATH },
      { source: TOOL_DIRECTORY, target: "/dsec/bin" },
      { source: PYTHON_DIRECTORY, target: "/dsec/python" },
      ...spec.inputs.map((input, i) => ({ source: prepared.inputPaths[i]!, target: input.mount_path })),
    ],
    limits: {
      cpuMillis: asked.cpu_millis,
      memoryBytes: asked.memory_mb * MEBIBYTE,
      pids: asked.pids,
      diskIops: asked.disk_iops,
      // To the launcher 0 is no limit; a task that asked for no disk gets the least, not all.
      diskBytes: Math.max(1, asked.disk_mb) * MEBIBYTE,
    },
    timeoutMs: spec.timeout_ms,
  };
}

/** Whether a plan was refused for want of resources. */
export function isInsufficient(error: unknown): error is DsecError {
  return error instanceof DsecError && Object.values(INSUFFICIENT).includes(error.code);
}

/** The task's own variables go before ours; `dsec-tool` is found whatever PATH it sets, and last. */
function environmentOf(
  { task_id: taskId, spec }: Lease,
  offered: Record<string, string>,
): Record<string, string> {
  const env: Record<string, string> = {
    ...DEFAULT_ENVIRONMENT,
    PYTHONPATH: "/dsec/python",
    DSEC_TASK_ID: taskId,
    DSEC_SOCKET: SOCKET_PATH,
    ...offered,
    ...spec.env,
  };
  env.PATH = env.PATH === "" ? "/dsec/bin" : `${env.PATH}:/dsec/bin`;
  return env;
}

/** Names the sandbox and its folder: a task leased twice by one executor must not meet what the first attempt left. */
export function sandboxId(lease: { lease_id: string; fence: number }): string {
  return `${lease.lease_id}_${lease.fence}`;
}

/** The lease that a sandbox was named by; null for a name that is no sandbox's. */
export function holdOfSandbox(id: string): Hold | null {
  const at = id.lastIndexOf("_");
  const hold = HoldSchema.safeParse({ lease_id: id.slice(0, at), fence: Number(id.slice(at + 1)) });
  return hold.success && sandboxId(hold.data) === id ? hold.data : null;
}
