/**
 * What every subcommand shares: how it is declared, how it reports, how it ends.
 *
 * Exit codes: 0 done; 1 an operation failed (`error CODE: message` on stderr); 2 wrong usage. `dsec run` ends with
 * the exit code of the task's command, and with 125 for every failure of dsec's own, as wrong usage. Whoever reads
 * standard output and goes away ends a command with 141, as a shell tells of SIGPIPE.
 */
import { Command, Option } from "commander";
import { DsecError } from "#core/errors.ts";
import { parseCidr } from "#core/policy/address.ts";
import { paintFor, plainLine } from "./terminal.ts";

export const EXIT = { done: 0, failed: 1, usage: 2, runFailed: 125, readerGone: 141 } as const;

/**
 * Declares arguments, options and the action of a subcommand whose name and summary are already set.
 * @param words what the command line says after the subcommand's name, for who loads only what is called
 */
export type Define = (command: Command, words: string[]) => void | Promise<void>;

/** Help ends with examples: they are read first. */
export function examples(command: Command, lines: [what: string, invocation: string][]): void {
  const text = lines.map(([what, invocation]) => `  # ${what}\n  ${invocation}`).join("\n");
  command.addHelpText("after", `\nExamples:\n${text}`);
}

export function jsonOption(): Option {
  return new Option("--json", "print one JSON value on standard output; messages go to standard error");
}

export function gatewayOption(): Option {
  return new Option(
    "-g, --gateway <url>",
    "gateway to use, with the key in DSEC_API_KEY (default: the one that serves the data folder)",
  ).env("DSEC_GATEWAY");
}

/** The data folder where none is named: in the current folder. */
export const DEFAULT_DATA = ".dsec";

export function dataOption(): Option {
  return new Option("--data <dir>", "data folder").env("DSEC_DATA").default(DEFAULT_DATA);
}

/** @param purpose what it is for, of a command's own */
export function databaseOption(purpose: string): Option {
  return new Option("--database <url>", purpose).env("DSEC_DATABASE").argParser(databaseUrl);
}

// Neither message shows the URL: it may hold a password.
function databaseUrl(text: string): string {
  const authority = /^[^:]*:\/\/([^/?#]*)/.exec(text)?.[1] ?? "";
  if (authority.slice(authority.lastIndexOf("@") + 1).includes(",")) {
    throw usageError("--database must name one host: the server that takes writes, or what leads to it");
  }
  if (/^postgres(ql)?:$/.test(URL.parse(text)?.protocol ?? "")) return text;
  throw usageError("--database must be postgres://user[:password]@host[:port]/database");
}

/**
 * How a subcommand declares its own subcommands, all with the same options: `--json`, the data folder unless they work on
 * files that are named to them, and for those that talk to a gateway which one.
 */
export function nestedIn(
  command: Command,
  reach: "gateway" | "data folder" | "files",
): (name: string, summary: string) => Command {
  return (name, summary) => {
    const nested = command.command(name).description(summary).exitOverride();
    if (reach === "gateway") nested.addOption(gatewayOption());
    if (reach !== "files") nested.addOption(dataOption());
    return nested.addOption(jsonOption());
  };
}

/** The one JSON value of a command with `--json`. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value, null, 2)}\n`);
}

/** For people, beside the result: never on standard output. */
export function note(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Says what failed, and where a program listens says it as JSON too. */
export function reportFailure(error: unknown, json: boolean): void {
  const code = error instanceof DsecError ? error.code : "INTERNAL";
  const message = error instanceof Error ? error.message : String(error);
  const requestId = error instanceof DsecError ? error.details?.request_id : undefined;
  if (json) {
    printJson({ error: { code, message, ...(requestId === undefined ? {} : { request_id: requestId }) } });
  }
  const paint = paintFor(process.stderr);
  process.stderr.write(`${paint("red", "error")} ${paint("bold", code)}: ${plainLine(message)}\n`);
  // a failure that nobody foresaw is a bug: its place is what a report needs
  if (!(error instanceof DsecError) && error instanceof Error && error.stack) {
    process.stderr.write(`${error.stack}\n`);
  }
}

/** Who hears that standard output takes no more (EPIPE after `| head`, ENOSPC): the first is for every command. */
const lostOutput = { handle: (_: NodeJS.ErrnoException): void => {} };

/**
 * From now on a standard output that takes no more ends the process, as SIGPIPE would (141) or with `failedCode` and
 * the reason, unless a command has said by `onLostOutput` what it does then. Standard error may be lost in silence.
 */
export function watchOutput(failedCode: number): void {
  lostOutput.handle = (error) => {
    if (error.code === "EPIPE") process.exit(EXIT.readerGone);
    reportFailure(unwritable("standard output", error), false);
    process.exit(failedCode);
  };
  process.stdout.on("error", (error) => lostOutput.handle(error));
  process.stderr.on("error", () => {});
}

export function onLostOutput(handle: (error: NodeJS.ErrnoException) => void): void {
  lostOutput.handle = handle;
}

export function unwritable(what: string, cause: Error): DsecError {
  return new DsecError("OUTPUT_UNWRITABLE", `${what} cannot be written: ${cause.message}`, { cause });
}

/** A whole number within bounds, as a commander argument parser. */
export function wholeNumber(what: string, min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw usageError(`${what} must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`);
  };
}

/** An attestation's `iss` is compared byte by byte: it is written in the one way that an origin has. */
export function issuerOption(): Option {
  return new Option("--issuer <url>", "public origin of this gateway, which attestations name")
    .env("DSEC_ISSUER")
    .argParser((text: string) => {
      const url = URL.parse(text);
      if (url !== null && /^https?:$/.test(url.protocol) && url.origin === text) return text;
      const instead = url !== null && /^https?:$/.test(url.protocol) ? url.origin : "https://dsec.example";
      throw usageError(`--issuer must be an origin such as ${instead}, not ${JSON.stringify(text)}`);
    });
}

/** Which networks of this host's tasks' policies may open; a gateway opens none by itself. */
export function privateNetworkOption(): Option {
  return new Option(
    "--private-network <cidr>",
    "let policies reach this address or block although it is not public; repeatable",
  ).argParser((text: string, given: string[] | undefined) => {
    if (parseCidr(text) !== null) return [...(given ?? []), text];
    throw usageError(
      `--private-network must be an address or a block such as 10.1.0.0/16, not ${JSON.stringify(text)}`,
    );
  });
}

export function upstreamCaOption(): Option {
  return new Option(
    "--upstream-ca <pem>",
    "file of authorities that tools may be certified by beside the public ones",
  ).env("DSEC_UPSTREAM_CA");
}

export function memoryRedisOption(): Option {
  return new Option(
    "--memory-redis <url>",
    "keep the agents' memory in this Redis, which executors may share, in place of the data folder",
  )
    .env("DSEC_MEMORY_REDIS")
    .argParser((text: string) => {
      const url = URL.parse(text);
      if (url !== null && /^rediss?:$/.test(url.protocol) && url.hostname !== "") return text;
      // Not shown: it may hold a password.
      throw usageError(
        "--memory-redis must be redis://[user:password@]host[:port][/number], or rediss:// for TLS",
      );
    });
}

/** The command line itself is wrong: told apart from a failed operation by its exit code. */
export class UsageError extends DsecError {}

export function usageError(message: string): UsageError {
  return new UsageError("CONFIG_INVALID", message);
}

/** Appends a repeated option's value. */
export function collect(value: string, previous: string[] = []): string[] {
  return [...previous, value];
}

/**
 * Each SIGINT or SIGTERM takes the next of the steps, the first of which asks to end in order. One more than there are
 * steps ends the process at once. Returns what stops listening.
 * Without steps that is the first: unlike being killed, it removes what is on disk only for a while (#trace/node/temporary.ts).
 */
export function onStopSignal(...steps: ((signal: "SIGINT" | "SIGTERM") => void)[]): () => void {
  const left = [...steps];
  const listeners = (["SIGINT", "SIGTERM"] as const).map((signal) => {
    const listener = () => {
      const step = left.shift();
      if (step === undefined) process.exit(signal === "SIGINT" ? 130 : 143);
      step(signal);
    };
    process.on(signal, listener);
    return [signal, listener] as const;
  });
  return () => {
    for (const [signal, listener] of listeners) process.off(signal, listener);
  };
}

export { Command, Option };
