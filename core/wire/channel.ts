/** What crosses the sandbox's socket besides memory and messages (docs/channel.md). */
import { z } from "zod";
import { LIMITS } from "../limits.ts";
import { HeadersSchema } from "./calls.ts";
import { strict, text } from "./common.ts";
import { RetrySchema, ToolNameSchema } from "./tools.ts";

/** Any JSON value that is there; what came in was parsed strictly already. */
const json = z.unknown().refine((value) => value !== undefined, "is missing");

/** The very object that was parsed: the texts of its numbers are kept beside it. */
const objectAsGiven = z.custom<Record<string, unknown>>(
  (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  "must be an object",
);

export const ToolCallSchema = strict({ input: objectAsGiven.default({}) });

export const ApiCallSchema = strict({
  method: z
    .string()
    .regex(/^[A-Z][A-Z-]{0,31}$/, "must be a method in upper case")
    .default("GET"),
  url: z.string().max(LIMITS.urlChars),
  /** By name, or name and value in order where a name is repeated. */
  headers: z
    .union([
      HeadersSchema,
      z
        .record(z.string(), z.string())
        .transform((given) => Object.entries(given))
        .pipe(HeadersSchema),
    ])
    .default([]),
  /** UTF-8 text, or bytes as base64. */
  body: z.string().optional(),
  body_base64: z.base64().optional(),
  /** For each try. */
  timeout_ms: z.number().int().min(1).max(LIMITS.callTimeoutMsMax).default(LIMITS.callTimeoutMsDefault),
  retry: RetrySchema.optional(),
}).refine(
  (call) => call.body === undefined || call.body_base64 === undefined,
  "has both body and body_base64",
);
export type ApiCall = z.output<typeof ApiCallSchema>;

/** The end of a tool that `dsec-tool exec` ran within the sandbox. */
export const ToolRunEndSchema = strict({
  call: z.number().int().min(1),
  exit_code: z.number().int().min(0).max(255).nullable(),
  signal: z.number().int().min(1).max(64).nullable(),
  timed_out: z.boolean(),
  stdout_base64: z.base64(),
  stderr_base64: z.base64().default(""),
});
export type ToolRunEnd = z.output<typeof ToolRunEndSchema>;

export const StepBeginSchema = strict({ name: text(200).min(1), state: z.unknown().optional() });
export const StepEndSchema = strict({
  status: z.enum(["succeeded", "failed"]).default("succeeded"),
  detail: z.unknown().optional(),
});

const finite = z.number();
const componentName = text(100).min(1);
const components = z
  .record(componentName, finite)
  .refine(
    (given) => Object.keys(given).length <= LIMITS.rewardComponents,
    `has more than ${LIMITS.rewardComponents} members`,
  );
export const RewardSchema = strict({
  /** Raw values by name. */
  components: components.refine((given) => Object.keys(given).length > 0, "is empty"),
  /** 1 where a component has none. */
  weights: components.default({}),
}).refine(
  ({ components, weights }) => Object.keys(weights).every((name) => Object.hasOwn(components, name)),
  "has a weight without a component",
);

const tokenId = z
  .number()
  .int()
  .min(0)
  .max(2 ** 32);
/** Natural logarithms. */
const token = strict({
  id: tokenId,
  logprob: finite,
  top: z
    .array(strict({ id: tokenId, logprob: finite }))
    .max(LIMITS.logitTop)
    .default([]),
  log_sum_exp: finite.nullable().default(null),
});
export const LogitsSchema = strict({
  /** Which text the tokens are of, in the agent's own words. */
  source: text(200).nullable().default(null),
  tokens: z.array(token).min(1).max(LIMITS.logitTokens),
});

/** An error that the agent met within itself, in its own words. */
export const AgentErrorSchema = strict({
  code: text(100).min(1).default("AGENT_ERROR"),
  text: text(LIMITS.errorTextChars),
  stack: text(LIMITS.stackChars).nullable().default(null),
});

export const ContextSchema = strict({ context: json });

export const ObservationsQuerySchema = z.strictObject({
  wait_ms: z.coerce.number().int().min(0).max(LIMITS.longPollMs).default(0),
});

/** JSON-RPC 2.0 as MCP uses it: one request or notification in a message. */
export const RpcMessageSchema = z.object({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z.record(z.string(), z.unknown()).optional(),
});
export type RpcMessage = z.output<typeof RpcMessageSchema>;
export const RpcToolCallSchema = z.looseObject({
  name: ToolNameSchema,
  arguments: objectAsGiven.default({}),
});
