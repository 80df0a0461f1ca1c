/** The options by which `dsec run` and `dsec task submit` describe a task. */
import { type Command, Option } from "commander";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";
import { TRACE_LEVELS } from "#core/wire/trace.ts";
import type { Client } from "#sdk/client.ts";
import { fileStream, readStandardInput } from "./given-file.ts";
import { collect, usageError, wholeNumber } from "./program.ts";
import { withSandboxConfig } from "./sandbox-config.ts";

export type TaskOptions = {
  image?: string;
  input?: string[];
  output?: string[];
  env?: string[];
  workdir?: string;
  cpu?: number;
  memory?: number;
  disk?: number;
  pids?: number;
  timeout?: number;
  priority?: number;
  retries?: number;
  label?: string[];
  nonce?: string;
  stdin?: boolean;
  config?: string;
  trace?: (typeof TRACE_LEVELS)[number];
};

/** Where the agent of a task may look for an input that was given without a place. */
const INPUT_FOLDER = "/inputs";

export function addTaskOptions(command: Command): Command {
  return command
    .addOption(
      new Option("-i, --image <image>", "host, sha256:…, or an imported image's name").default("host"),
    )
    .option(
      "--input <file[:path]>",
      `a file to mount read-only (default path: ${INPUT_FOLDER}/NAME); repeatable`,
      collect,
    )
    .option("-o, --output <glob>", "files to keep, relative to the working directory; repeatable", collect)
    .option(
      "-e, --env <name=value>",
      "environment variable; NAME alone takes its value from here; repeatable",
      collect,
    )
    .option("-w, --workdir <path>", "working directory in the sandbox")
    .option("--cpu <cores>", "CPU limit in cores, such as 0.5", cores)
    .option("-m, --memory <size>", "memory limit, such as 512m or 2g", mebibytes("--memory"))
    .option("--disk <size>", "bytes that may be written, such as 512m or 2g", mebibytes("--disk"))
    .option("--pids <n>", "process limit", wholeNumber("--pids", 2, 4_194_304))
    .option("-t, --timeout <time>", "time limit, such as 500ms, 30s, 10m, 2h", milliseconds)
    .option(
      "--priority <n>",
      "higher goes first",
      integer("--priority", LIMITS.priorityMin, LIMITS.priorityMax),
    )
    .option(
      "--retries <n>",
      "further attempts after a fault of the system",
      wholeNumber("--retries", 0, LIMITS.retriesMax),
    )
    .option("-l, --label <name=value>", "label to find the task by; repeatable", collect)
    .option("--nonce <text>", "repeated in the attestation, which proves that it was made for this task")
    .option("--config <file>", "a module with the task's tools and policy, such as sandbox.config.ts")
    .addOption(
      new Option("--trace <level>", "how much of what happens is recorded").choices([...TRACE_LEVELS]),
    )
    .option("--stdin", "read standard input to its end and give it to the command (otherwise it has none)");
}

/** The task that the options describe; uploads its inputs. */
export async function taskRequest(
  client: Client,
  command: string[],
  options: TaskOptions,
): Promise<TaskRequest> {
  const inputs = [];
  for (const given of options.input ?? []) {
    const { file, mountPath } = inputPlace(given);
    const { artifact } = await client.artifacts.put(fileStream(file, `--input ${file}`));
    inputs.push({ artifact, mount_path: mountPath });
  }
  const resources = {
    ...(options.cpu === undefined ? {} : { cpu_cores: options.cpu }),
    ...(options.memory === undefined ? {} : { memory_mb: options.memory }),
    ...(options.disk === undefined ? {} : { disk_mb: options.disk }),
    ...(options.pids === undefined ? {} : { pids: options.pids }),
  };
  const request: TaskRequest = {
    image: options.image ?? "host",
    command,
    inputs,
    outputs: options.output ?? [],
    env: Object.fromEntries((options.env ?? []).map(environmentEntry)),
    labels: Object.fromEntries((options.label ?? []).map((text) => pair("--label", text))),
    resources,
    ...(options.workdir === undefined ? {} : { working_directory: options.workdir }),
    ...(options.timeout === undefined ? {} : { timeout_ms: options.timeout }),
    ...(options.priority === undefined ? {} : { priority: options.priority }),
    ...(options.retries === undefined ? {} : { retries: options.retries }),
    ...(options.nonce === undefined ? {} : { nonce: options.nonce }),
    ...(options.trace === undefined ? {} : { trace: { level: options.trace } }),
    ...(options.stdin ? { stdin: await standardInputText() } : {}),
  };
  return options.config === undefined ? request : withSandboxConfig(request, options.config);
}

/** `FILE` or `FILE:/path`; a colon in the file's own name is kept where no absolute path follows it. */
function inputPlace(given: string): { file: string; mountPath: string } {
  const colon = given.lastIndexOf(":/");
  if (colon > 0) return { file: given.slice(0, colon), mountPath: given.slice(colon + 1) };
  return { file: given, mountPath: `${INPUT_FOLDER}/${given.split("/").at(-1)}` };
}

async function standardInputText(): Promise<string> {
  const bytes = await readStandardInput(
    LIMITS.stdinBytes,
    "no more go with --stdin: pass a file with --input",
  );
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new DsecError(
      "INVALID_REQUEST",
      "standard input is not UTF-8 text; pass bytes as a file with --input",
      { cause },
    );
  }
}

function environmentEntry(text: string): [string, string] {
  if (text.includes("=")) return pair("--env", text);
  const value = process.env[text];
  if (value === undefined)
    throw usageError(`--env ${text}: the variable is not set here; write ${text}=VALUE`);
  return [text, value];
}

function pair(option: string, text: string): [string, string] {
  const equals = text.indexOf("=");
  if (equals < 1) throw usageError(`${option} must be NAME=VALUE, not ${JSON.stringify(text)}`);
  return [text.slice(0, equals), text.slice(equals + 1)];
}

function cores(text: string): number {
  const value = Number(text);
  if (/^\d+(\.\d{1,3})?$/.test(text) && value >= 0.01) return value;
  throw usageError(`--cpu must be a number of cores such as 0.5, at least 0.01, not ${JSON.stringify(text)}`);
}

const SIZE_MIB: Record<string, number> = { m: 1, g: 1024, t: 1024 * 1024 };

function mebibytes(option: string): (text: string) => number {
  return (text) => {
    const match = /^(\d+)\s*([mgt])(?:i?b)?$/i.exec(text);
    if (match) return Number(match[1]) * SIZE_MIB[match[2]!.toLowerCase()]!;
    throw usageError(
      `${option} must be a size with its unit, such as 512m or 2g, not ${JSON.stringify(text)}`,
    );
  };
}

const TIME_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

function milliseconds(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h)$/.exec(text);
  const value = match ? Math.round(Number(match[1]) * TIME_MS[match[2]!]!) : 0;
  if (value >= 1 && value <= LIMITS.timeoutMsMax) return value;
  throw usageError(
    `--timeout must be a time with its unit from 1ms to 168h, such as 30s, not ${JSON.stringify(text)}`,
  );
}

function integer(option: string, min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^-?\d+$/.test(text) && value >= min && value <= max) return value;
    throw usageError(`${option} must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`);
  };
}
