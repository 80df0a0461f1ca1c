import { z } from "zod";
import { countAlternatives } from "../brace-expansion.ts";
import { LIMITS } from "../limits.ts";
import { add, type Resources } from "../resources.ts";
import { END_REASONS, TASK_STATES } from "../task.ts";
import {
  AttestationIdSchema,
  DigestSchema,
  ExecutorIdSchema,
  FenceSchema,
  fromWire,
  ImageSchema,
  KeyIdSchema,
  PageQuerySchema,
  pageOf,
  ResourcesSchema,
  strict,
  TaskIdSchema,
  TimeSchema,
  text,
  type WireResources,
} from "./common.ts";
import { MemoryGrantSchema } from "./memory.ts";
import { ChannelsSchema } from "./messages.ts";
import { PolicySchema } from "./policy.ts";
import { siblingRoom, ToolsSchema, ToolTimeoutsSchema, unknownToolTimeouts } from "./tools.ts";
import { TraceSpecSchema } from "./trace.ts";

export { ImageSchema };

const encoder = new TextEncoder();
const argument = text(LIMITS.argumentBytes).refine(
  (value) => encoder.encode(value).length <= LIMITS.argumentBytes,
  `must be at most ${LIMITS.argumentBytes} bytes; pass larger content as an input artifact`,
);

/** Absolute, normal, and not the root: no `.`/`..` members, no doubled or trailing slash. */
const absolutePath = text(1024).refine(
  (path) => /^(\/[^/]+)+$/.test(path) && !path.split("/").some((part) => part === "." || part === ".."),
  "must be an absolute path without . or .. members",
);

/** Where inputs may not be mounted: they would replace what the sandbox itself is made of. */
const RESERVED_MOUNTS = [
  ...["/proc", "/dev", "/sys", "/dsec", "/run/dsec"],
  ...["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"],
];
const mountPath = absolutePath
  .refine(
    (path) => !RESERVED_MOUNTS.some((reserved) => path === reserved || path.startsWith(`${reserved}/`)),
    `must not lie in ${RESERVED_MOUNTS.join(", ")}`,
  )
  .refine((path) => path !== "/run", "must not be /run, which holds the sandbox's socket");

/** A path pattern (`*`, `?`, `**`, `[a-z]`, `{a,b}`), absolute or relative to the working directory. */
const outputGlob = text(LIMITS.outputPathBytes).refine(
  (glob) => glob.length > 0 && !glob.split("/").includes(".."),
  "must be a non-empty pattern without .. members",
);

/** Judged before anything runs: what patterns multiply to is matched by the executor, whose other tasks it would hold up. */
const outputGlobs = z
  .array(outputGlob)
  .max(LIMITS.outputGlobs)
  .superRefine((globs, context) => {
    let alternatives = 0;
    for (const [at, glob] of globs.entries()) {
      alternatives += countAlternatives(glob);
      if (alternatives <= LIMITS.outputAlternatives) continue;
      const message =
        `${JSON.stringify(glob.slice(0, 200))} brings the output patterns to more than ${LIMITS.outputAlternatives} ` +
        "alternatives together; use a wildcard, or put out an archive";
      context.addIssue({ code: "custom", path: [at], message });
      return;
    }
  });

const environmentName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,255}$/, "must be an environment variable name");

/** What a task that does not say gets of each axis. */
export const DEFAULT_RESOURCES = {
  cpu_cores: 1,
  memory_mb: 512,
  gpu_memory_mb: 0,
  disk_iops: 0,
  network_mbps: 0,
  pids: 256,
  disk_mb: 1024,
};

export const TaskSpecSchema = strict({
  image: ImageSchema.default("host"),
  command: z.array(argument).min(1).max(LIMITS.commandArguments),
  env: z
    .record(environmentName, argument)
    .refine((env) => Object.keys(env).length <= LIMITS.environmentEntries, "has too many entries")
    .default({}),
  /** Text given to the command's standard input, which is otherwise at its end (/dev/null). */
  stdin: text(LIMITS.stdinBytes).nullable().default(null),
  working_directory: absolutePath.default("/work"),
  inputs: z
    .array(strict({ artifact: DigestSchema, mount_path: mountPath }))
    .max(LIMITS.inputCount)
    .refine(
      (all) => new Set(all.map((input) => input.mount_path)).size === all.length,
      "mount_path is repeated",
    )
    .default([]),
  outputs: outputGlobs.default([]),
  resources: ResourcesSchema.extend({
    cpu_cores: ResourcesSchema.shape.cpu_cores.refine((cores) => cores >= 0.01, "must be at least 0.01"),
    memory_mb: ResourcesSchema.shape.memory_mb.refine((mb) => mb >= 4, "must be at least 4"),
    pids: ResourcesSchema.shape.pids.refine((pids) => pids >= 2, "must be at least 2"),
  })
    .partial()
    .default({})
    .transform((given) => ({ ...DEFAULT_RESOURCES, ...given }) as WireResources),
  timeout_ms: z.number().int().min(1).max(LIMITS.timeoutMsMax).default(LIMITS.timeoutMsDefault),
  /** What the task may reach; without it, nothing. The owner can replace it while the task runs. */
  policy: PolicySchema.prefault({}),
  /** What the agent may call by name, besides whatever the policy lets it reach. */
  tools: ToolsSchema.default([]),
  tool_timeout_ms: ToolTimeoutsSchema.nullable().default(null),
  /** How long one plan step of the agent may take; null is without end. */
  plan_step_timeout_ms: z.number().int().min(1).max(LIMITS.timeoutMsMax).nullable().default(null),
  /** Sandboxes whose tasks name one job of one key may exchange messages. */
  job: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,100}$/, "must be letters, digits, . _ -")
    .nullable()
    .default(null),
  /** What this task says of its job's message channels. One that nobody declares takes any JSON. */
  channels: ChannelsSchema.default([]),
  /** Memory besides the task's own: namespaces that all tasks of the key share, by name. */
  memory: strict({ shared: z.array(MemoryGrantSchema).max(64).default([]) }).prefault({}),
  /** How much of what happens is recorded. */
  trace: TraceSpecSchema.prefault({}),
  /**
   * An attempt that follows one which was pre-empted or lost is first given what that one was given, and goes on live from
   * there: no call that may have done something is made twice. For agents that do the same when they are given the same.
   */
  fast_forward: z.boolean().default(false),
  /**
   * Goes on from a recording, which is an artifact: its first attempt too is given what was recorded, before the call
   * `until_call` or to the end, and goes on live from there. An agent that does otherwise before ends its attempt.
   */
  continues: strict({
    trace: DigestSchema,
    until_call: z.number().int().min(1).max(LIMITS.traceIndexNumber).nullable().default(null),
  })
    .nullable()
    .default(null),
  /** Offered to agents that draw lots (DSEC_SEED); null is one that follows from the task's id. */
  seed: z.number().int().min(0).max(0xffff_ffff).nullable().default(null),
  /** Further attempts after a fault of ours (lost executor, failed launch). A result is never retried. */
  retries: z.number().int().min(0).max(LIMITS.retriesMax).default(LIMITS.retriesDefault),
  priority: z.number().int().min(LIMITS.priorityMin).max(LIMITS.priorityMax).default(0),
  labels: z
    .record(
      z.string().regex(/^[A-Za-z0-9._/-]{1,100}$/, "must be letters, digits, . _ / -"),
      text(LIMITS.labelChars),
    )
    .refine((labels) => Object.keys(labels).length <= LIMITS.labelCount, "has too many labels")
    .default({}),
  /** Chosen by the client and repeated in the attestation (`eat_nonce`), so that an old one cannot be passed off. */
  nonce: text(LIMITS.nonceChars).min(8).nullable().default(null),
})
  .refine(
    (spec) =>
      spec.command.reduce((sum, part) => sum + part.length, 0) +
        Object.entries(spec.env).reduce((sum, [name, value]) => sum + name.length + value.length, 0) <=
      LIMITS.commandBytes,
    `command and env together must be at most ${LIMITS.commandBytes} characters`,
  )
  .refine(({ fast_forward, continues }) => continues === null || fast_forward, {
    path: ["continues"],
    message:
      "needs fast_forward: later attempts are to go on from the earlier ones, and not to do again what those did",
  })
  .refine(({ fast_forward, trace }) => !fast_forward || trace.level === "full", {
    path: ["fast_forward"],
    message: "needs trace.level full: other levels keep no answers that could be given again",
  })
  .superRefine(({ tools, tool_timeout_ms }, context) => {
    for (const name of unknownToolTimeouts(tools, tool_timeout_ms)) {
      const known = tools.map((tool) => tool.name).slice(0, 20);
      const message = `names no tool of the task; ${known.length === 0 ? "it has none" : `it has ${known.join(", ")}`}`;
      context.addIssue({ code: "custom", path: ["tool_timeout_ms", name], message });
    }
  });

/** What a client sends. */
export type TaskRequest = z.input<typeof TaskSpecSchema>;
/** The spec with every default filled in: what is stored, digested (RFC 8785 + SHA-256) and run. */
export type TaskSpec = z.output<typeof TaskSpecSchema>;

/** What an attempt takes of its executor: its own, and room for one of its tools in a sandbox beside it. */
export function footprint({ resources, tools }: Pick<TaskSpec, "resources" | "tools">): Resources {
  return add(fromWire(resources), siblingRoom(tools));
}

export const OutcomeSchema = z.object({
  reason: z.enum(END_REASONS),
  exit_code: z.number().int().min(0).max(255).nullable(),
  signal: z
    .string()
    .regex(/^SIG[A-Z0-9+]{1,12}$/)
    .nullable(),
  message: text(LIMITS.errorTextChars).nullable(),
});

export const OutputSchema = strict({
  /** Absolute in the sandbox. Bytes that are not UTF-8 stand as percent escapes, as does the percent sign itself. */
  path: text(LIMITS.outputPathBytes),
  digest: DigestSchema,
  size: z.number().int().min(0),
});
export type Output = z.infer<typeof OutputSchema>;
/** All outputs of a task, at once: there are at most `outputFiles`. Empty until the task is final. */
export const OutputListSchema = z.object({ items: z.array(OutputSchema) });
export const OutputContentQuerySchema = z.strictObject({ path: text(LIMITS.outputPathBytes) });

/** One captured stream: the digest is over the kept bytes, `total_bytes` counts what the command wrote. */
export const StreamSchema = strict({
  digest: DigestSchema,
  kept_bytes: z.number().int().min(0).max(LIMITS.streamKeptBytes),
  total_bytes: z.number().int().min(0),
});
export type Stream = z.infer<typeof StreamSchema>;

/** What one finished attempt left. */
export const ResultSchema = strict({
  outcome: OutcomeSchema,
  outputs: z.array(OutputSchema).max(LIMITS.outputFiles),
  stdout: StreamSchema,
  stderr: StreamSchema,
});
export type Result = z.infer<typeof ResultSchema>;

export const TaskSchema = z.object({
  id: TaskIdSchema,
  key_id: KeyIdSchema,
  state: z.enum(TASK_STATES),
  spec: TaskSpecSchema,
  spec_digest: DigestSchema,
  /** Attempts begun so far; an orderly release does not count. */
  attempts: z.number().int().min(0),
  fence: z.number().int().min(0),
  executor_id: ExecutorIdSchema.nullable(),
  cancel_requested: z.boolean(),
  created_at: TimeSchema,
  started_at: TimeSchema.nullable(),
  finished_at: TimeSchema.nullable(),
  /** Set once the task is final. */
  result: ResultSchema.nullable(),
  /** The attestation of the attempt that decided; null until then, and where no executor lived to sign evidence. */
  attestation_id: AttestationIdSchema.nullable(),
});
/** `spec` has been through the schema already: readers get its output form. */
export type Task = z.output<typeof TaskSchema>;

export const TaskListQuerySchema = PageQuerySchema.extend({
  state: z.enum(TASK_STATES).optional(),
  /** `name=value`, exactly */
  label: z.string().max(400).optional(),
});
export const TaskPageSchema = pageOf(TaskSchema);

/** Where a stream of events begins, for clients that cannot send Last-Event-ID (which goes before it). */
export const EventsQuerySchema = z.strictObject({ after: z.string().max(100).optional() });

/**
 * Events of a task, in order, each with a sequence number that is its SSE id. `data` is base64: output is
 * bytes and need not be UTF-8.
 */
export const TaskEventSchema = z.discriminatedUnion("type", [
  z.object({
    seq: z.number().int(),
    at: TimeSchema,
    type: z.literal("state"),
    state: z.enum(TASK_STATES),
    fence: z.number().int(),
    reason: z.string().nullable(),
  }),
  z.object({
    seq: z.number().int(),
    at: TimeSchema,
    type: z.enum(["stdout", "stderr"]),
    fence: FenceSchema,
    offset: z.number().int().min(0),
    data: z.base64(),
  }),
  z.object({
    seq: z.number().int(),
    at: TimeSchema,
    type: z.literal("truncated"),
    fence: FenceSchema,
    stream: z.enum(["stdout", "stderr"]),
  }),
]);
export type TaskEvent = z.infer<typeof TaskEventSchema>;

export const ArtifactSchema = z.object({ artifact: DigestSchema, size: z.number().int().min(0) });
/** The digest that the client expects of what it uploads; without it the gateway only says which one it got. */
export const ArtifactQuerySchema = z.strictObject({ digest: DigestSchema.optional() });
