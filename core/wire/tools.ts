/** The tools that a task declares. An agent calls them by name; what they reach is the task's policy all the same. */
import { z } from "zod";
import { DsecError } from "../errors.ts";
import type { Json } from "../json.ts";
import { compileSchema } from "../json-schema.ts";
import { LIMITS } from "../limits.ts";
import { AXES, NO_RESOURCES, type Resources } from "../resources.ts";
import { fromWire, ImageSchema, ResourcesSchema, strict, text, type WireResources } from "./common.ts";

/** A name as MCP and the APIs of language models take it. */
export const ToolNameSchema = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/,
    "must be up to 64 letters, digits, _ - and begin with a letter or _",
  );

const ToolTimeoutSchema = z.number().int().min(1).max(LIMITS.callTimeoutMsMax);

export const RetrySchema = strict({
  /** Tries in all, the first one included. */
  attempts: z.number().int().min(1).max(LIMITS.toolTries),
  /** Before the second try; doubled before each further one. */
  backoff_ms: z.number().int().min(0).max(LIMITS.toolBackoffMsMax).default(100),
  /** What is tried again: no answer in time, an answer of 429 or 5xx, no answer at all. */
  on: z.array(z.enum(["timeout", "status", "network"])).default(["status", "network"]),
});
export type Retry = z.output<typeof RetrySchema>;

const Common = {
  name: ToolNameSchema,
  description: text(LIMITS.toolDescriptionChars).default(""),
  /** JSON Schema of the input object, in the subset of docs/channel.md; without it any object is taken. */
  parameters: z.unknown().optional(),
  /** The tool changes nothing outside: told to the agent, and what a rollback need not undo. */
  read_only: z.boolean().default(false),
  /** For each try. `tool_timeout_ms` of the task goes before it where it names the tool. */
  timeout_ms: ToolTimeoutSchema.optional(),
  /** The observation that the agent is given where the last try missed its deadline. Without it that is an error. */
  fallback: z.unknown().optional(),
};

export const HttpToolSchema = strict({
  ...Common,
  kind: z.literal("http"),
  method: z.enum(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]).default("GET"),
  /**
   * Absolute; `{param}` in its path or query becomes that input member, percent-encoded. Members without a place go into
   * the query of GET, HEAD and DELETE, and are the JSON body of the others.
   */
  url: text(LIMITS.urlChars).refine(
    isTemplate,
    "must be an absolute http: or https: URL with {param} only after the host",
  ),
  headers: z
    .record(
      z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$/, "must be a header name (RFC 9110 section 5.1)"),
      z
        .string()
        .max(4096)
        .regex(/^[\t\x20-\x7e]*$/, "must be ASCII without control characters"),
    )
    .default({}),
  retry: RetrySchema.optional(),
});
export type HttpTool = z.output<typeof HttpToolSchema>;

export const ExecToolSchema = strict({
  ...Common,
  kind: z.literal("exec"),
  /** Not a shell's words: an argument that is `{param}` becomes that input member. Standard input is the input as JSON. */
  command: z.array(text(LIMITS.argumentBytes)).min(1).max(LIMITS.commandArguments),
  /** In a sandbox of its own beside the agent's, or within the agent's, where `dsec-tool exec` runs it. */
  where: z.enum(["sibling", "sandbox"]).default("sibling"),
  /** Of the sibling; null is the task's own. */
  image: ImageSchema.nullable().default(null),
  /** Of the sibling, on top of the task's own; what it does not say is in DEFAULT_TOOL_RESOURCES. */
  resources: ResourcesSchema.partial().default({}),
});
export type ExecTool = z.output<typeof ExecToolSchema>;

export const ToolSchema = z.discriminatedUnion("kind", [HttpToolSchema, ExecToolSchema]);
export type Tool = z.output<typeof ToolSchema>;

/** What a sibling sandbox gets of each axis when its tool does not say. */
export const DEFAULT_TOOL_RESOURCES = {
  cpu_cores: 1,
  memory_mb: 256,
  gpu_memory_mb: 0,
  disk_iops: 0,
  network_mbps: 0,
  pids: 64,
  disk_mb: 256,
};

/** What a sibling sandbox of the tool takes. */
export function siblingResources(tool: Pick<ExecTool, "resources">): Resources {
  return fromWire({ ...DEFAULT_TOOL_RESOURCES, ...tool.resources } as WireResources);
}

/** Room for any one of the tools that run in a sandbox of their own: they run one after the other. */
export function siblingRoom(tools: readonly Tool[]): Resources {
  let room = NO_RESOURCES;
  for (const tool of tools) {
    if (tool.kind !== "exec" || tool.where !== "sibling") continue;
    const asked = siblingResources(tool);
    room = Object.fromEntries(AXES.map((axis) => [axis, Math.max(room[axis], asked[axis])])) as Resources;
  }
  return room;
}

export const ToolsSchema = z
  .array(ToolSchema)
  .max(LIMITS.toolsPerTask)
  .superRefine((tools, context) => {
    const names = new Set<string>();
    tools.forEach((tool, at) => {
      if (names.has(tool.name)) refuse(context, [at, "name"], `is repeated: ${tool.name}`);
      names.add(tool.name);
      const why = faultOfParameters(tool);
      if (why !== null) refuse(context, [at, "parameters"], why);
    });
  });

/** One time for every tool, or times by name. A name that no tool has is refused: it would be no time limit at all. */
export const ToolTimeoutsSchema = z.union([ToolTimeoutSchema, z.record(ToolNameSchema, ToolTimeoutSchema)]);
export type ToolTimeouts = z.output<typeof ToolTimeoutsSchema>;

/** Names in `tool_timeout_ms` that none of the tools has. */
export function unknownToolTimeouts(
  tools: readonly { name: string }[],
  timeouts: ToolTimeouts | null,
): string[] {
  if (timeouts === null || typeof timeouts === "number") return [];
  const names = new Set(tools.map((tool) => tool.name));
  return Object.keys(timeouts).filter((name) => !names.has(name));
}

/** Milliseconds that each try of a tool has. */
export function toolTimeoutMs(
  tool: Pick<Tool, "name" | "timeout_ms">,
  timeouts: ToolTimeouts | null,
): number {
  const everyTool = typeof timeouts === "number" ? timeouts : null;
  const named = typeof timeouts === "object" && timeouts !== null ? timeouts[tool.name] : undefined;
  return named ?? tool.timeout_ms ?? everyTool ?? LIMITS.callTimeoutMsDefault;
}

function faultOfParameters({ name, parameters }: { name: string; parameters?: unknown }): string | null {
  if (parameters === undefined) return null;
  try {
    compileSchema(parameters as Json, `tool ${name}`);
    return null;
  } catch (error) {
    if (error instanceof DsecError) return error.message;
    throw error;
  }
}

function isTemplate(url: string): boolean {
  const authority = /^https?:\/\/([^/?#]+)/i.exec(url)?.[1];
  return authority !== undefined && !/[{}@]/.test(authority) && URL.canParse(url.replaceAll(/\{\w+\}/g, "x"));
}

function refuse(context: z.RefinementCtx, path: (string | number)[], message: string): void {
  context.addIssue({ code: "custom", path, message });
}
