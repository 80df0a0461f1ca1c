/** A config module that says what a task may do outside its sandbox: `sandbox.config.ts`. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { DsecError } from "#core/errors.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";

/** What a config module may set of a task. */
const MEMBERS = [
  ...["tools", "policy", "tool_timeout_ms", "plan_step_timeout_ms", "job", "channels", "memory"],
  ...["env", "outputs", "resources", "timeout_ms", "labels", "retries", "trace"],
] as const;
type Trace = TaskRequest["trace"];
export type SandboxConfig = Partial<Pick<TaskRequest, Exclude<(typeof MEMBERS)[number], "trace">>> & {
  /** How much is recorded, also decided by a function of its own. */
  trace?: Trace | ((context: ConfigContext) => Trace | Promise<Trace>);
};

/** What a config function is called with: the task as the command line describes it, and the environment. */
export type ConfigContext = { task: TaskRequest; env: Readonly<Record<string, string | undefined>> };

/**
 * The task with what its config module adds. The module's default export is an object, or a function of the context,
 * which may be asynchronous; so that any condition can decide. What the command line says goes before it.
 * @throws CONFIG_INVALID naming the file and what is wrong with it
 */
export async function withSandboxConfig(task: TaskRequest, path: string): Promise<TaskRequest> {
  const file = resolve(path);
  if (!existsSync(file)) throw invalid(path, "is not there");
  const context: ConfigContext = { task, env: process.env };
  let given: unknown;
  let trace: unknown;
  try {
    const module = (await import(pathToFileURL(file).href)) as { default?: unknown };
    given = module.default;
    if (typeof given === "function") given = await settled(given(context));
    trace = (given as SandboxConfig | null)?.trace;
    if (typeof trace === "function") trace = await settled(trace(context));
  } catch (cause) {
    throw invalid(path, `failed: ${cause instanceof Error ? cause.message : String(cause)}`, cause);
  }
  if (given === null || typeof given !== "object" || Array.isArray(given)) {
    throw invalid(path, "must have an object, or a function that returns one, as its default export");
  }
  const { trace: _decided, ...config } = given as SandboxConfig;
  const unknown = Object.keys(given).filter((name) => !(MEMBERS as readonly string[]).includes(name));
  if (unknown.length > 0) throw invalid(path, `has ${unknown.join(", ")}; it may have ${MEMBERS.join(", ")}`);
  return {
    ...config,
    ...task,
    ...(trace === undefined ? {} : { trace: { ...(trace as Trace), ...task.trace } }),
    env: { ...config.env, ...task.env },
    labels: { ...config.labels, ...task.labels },
    resources: { ...config.resources, ...task.resources },
    outputs: [...(config.outputs ?? []), ...(task.outputs ?? [])],
  };
}

/** A promise that nothing is left to settle would end the process without a word. */
async function settled<T>(given: T | Promise<T>): Promise<T> {
  const never = Promise.withResolvers<never>();
  const giveUp = () => never.reject(new Error("it returned a promise that nothing will ever settle"));
  process.once("beforeExit", giveUp);
  try {
    return await Promise.race([given, never.promise]);
  } finally {
    process.off("beforeExit", giveUp);
  }
}

function invalid(path: string, why: string, cause?: unknown): DsecError {
  return new DsecError("CONFIG_INVALID", `--config ${path} ${why}`, { cause });
}
