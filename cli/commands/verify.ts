import { realpathSync } from "node:fs";
import { sep } from "node:path";
import { DsecError } from "#core/errors.ts";
import { sha256 } from "#core/json.ts";
import type { Output } from "#core/wire/tasks.ts";
import type { Client } from "#sdk/client.ts";
import type { GivenFile, UnreadFile } from "#trace/attestation/bundle.ts";
import { createJwksCache } from "#trace/attestation/jwks-cache.ts";
import type { KeySource } from "#trace/attestation/verify.ts";
import { connect, connectToOrigin } from "../connection.ts";
import {
  type Command,
  dataOption,
  EXIT,
  examples,
  gatewayOption,
  jsonOption,
  note,
  printJson,
} from "../program.ts";
import { paintFor, plainLine } from "../terminal.ts";
import { verifyTrace } from "../trace-verification.ts";
import {
  ATTESTATION_FILE,
  attestedFolders,
  entryAt,
  findJwksFile,
  JWKS_FILE,
  readJwksFile,
  readJwt,
  type Trust,
  type Verification,
  verify,
  verifyFolder,
} from "../verification.ts";

type Options = {
  jwks?: string;
  issuer?: string;
  nonce?: string;
  trace?: string;
  explain?: boolean;
  json?: boolean;
  gateway?: string;
  data: string;
};

type NamedTask = {
  id: string /** Of the gateway that its URL names; null of a bare id. */;
  origin: string | null;
};

/** Where the keys are from, and whether that is where the result is from: then they do not say who signed. */
type Keys = { source: string; came_along: boolean };

const KEYS_CAME_ALONG =
  "Who signed: the keys came with the result, and whoever made the one could have made the other. " +
  "Get the keys from the gateway yourself (--jwks https://…/.well-known/jwks.json) and keep them.";

export function define(command: Command): void {
  command
    .argument("<target>", "an attestation (JWT file), a folder with attestations, a task id, or a task's URL")
    .option("--jwks <file|url>", `keys to trust (default: jwks.json beside the target or above it)`)
    .option("--issuer <iss>", "the gateway whose word is asked for; without it the keys alone decide")
    .option("--nonce <text>", "the nonce that the task was given; the attestation must repeat it")
    .option("--trace <file>", "the trace of the attempt: it must be the one that is attested")
    .option("--explain", "say of each attestation what it proves, also where there are several")
    .addOption(gatewayOption())
    .addOption(dataOption())
    .addOption(jsonOption())
    .action(run);
  examples(command, [
    ["the results of the demo, offline", "dsec verify .dsec/demo"],
    ["one attestation against keys that you saved", "dsec verify result/attestation.jwt --jwks keys.json"],
    ["that a trace is the one of the attempt", "dsec verify task_01k… --trace task_01k….trace"],
    [
      "what a gateway holds of a task, with its outputs",
      "dsec verify task_01k… --gateway https://dsec.example",
    ],
  ]);
  command.addHelpText(
    "after",
    `\nFiles and folders are verified offline: nothing is fetched unless --jwks is a URL. In a folder, every file
beside ${ATTESTATION_FILE} must be an attested output, or everything beside ${JWKS_FILE} a folder with an attestation; a
link is refused. Every file is judged, and each that is not as attested is named. Keys that came with the result, or
from the gateway that its URL names, do not prove who signed it, which is then said. A URL's gateway must be the one that
--gateway names, or that serves the data folder. The exit code is 0 only if everything verifies.`,
  );
}

async function run(target: string, options: Options): Promise<void> {
  const task = namedTask(target);
  const { keys, attested } = await (task === null ? verifyPath(target, options) : verifyTask(task, options));
  const results = options.trace === undefined ? attested : await verifyTrace(options.trace, attested);
  if (keys.came_along) {
    for (const result of results)
      if (result.state === "verified") result.explanation.notProven.push(KEYS_CAME_ALONG);
  }
  if (options.json) printJson(results.map((result) => ({ ...result, keys })));
  else process.stdout.write(report(results, keys, options.explain === true || results.length === 1));
  process.exitCode = results.every(({ state }) => state === "verified") ? EXIT.done : EXIT.failed;
}

/** A bare task id, or the URL of a task or of something below it. What is there as a file or folder is that, whatever its name. */
function namedTask(target: string): NamedTask | null {
  if (entryAt(target) !== undefined) return null;
  if (/^task_[0-9a-z]+$/.test(target)) return { id: target, origin: null };
  const url = URL.parse(target);
  if (url === null || !/^https?:$/.test(url.protocol)) return null;
  const id = /\/(task_[0-9a-z]+)(?:\/|$)/.exec(url.pathname)?.[1];
  if (id !== undefined) return { id, origin: url.origin };
  throw new DsecError("NOT_FOUND", `${target} is no task's URL, such as ${url.origin}/v1/tasks/task_01k…`);
}

type Verified = { keys: Keys; attested: Verification[] };

async function verifyPath(target: string, options: Options): Promise<Verified> {
  const found = entryAt(target);
  if (found === undefined) throw new DsecError("NOT_FOUND", `${target}: no such file or folder`);
  const folders = found.isDirectory() ? attestedFolders(target) : undefined;
  if (folders?.length === 0) {
    throw new DsecError("NOT_FOUND", `${target} holds no ${ATTESTATION_FILE}, nor do the folders in it`);
  }
  const { jwks, keys } = await keysFor(options.jwks, target);
  const trust = { ...choice(options), jwks };
  const attested =
    folders === undefined
      ? [await verify(target, { jwt: await readJwt(target), files: [] }, trust)]
      : await Promise.all(folders.map((folder) => verifyFolder(folder, trust)));
  return { keys, attested };
}

/**
 * Every attestation that a gateway holds of a task; the outputs are compared with the one that decided. What answers may be
 * hostile: a genuine attestation of something else is refused, and so is a result that none is given for.
 */
async function verifyTask({ id: taskId, origin }: NamedTask, options: Options): Promise<Verified> {
  const client = await (origin === null ? connect(options) : connectToOrigin(origin, options));
  const [task, attestations] = await Promise.all([
    client.tasks.get(taskId),
    client.tasks.attestations(taskId),
  ]);
  if (attestations.length === 0) {
    throw new DsecError(
      "ATTESTATION_NOT_FOUND",
      `task ${taskId} is ${task.state} and has no attestation yet`,
    );
  }
  const found = await keysFor(options.jwks ?? `${client.gateway}/.well-known/jwks.json`, null);
  // whoever made up a URL names with it where the keys are, too
  const keys = { ...found.keys, came_along: origin !== null && options.jwks === undefined };
  const files: (GivenFile | UnreadFile)[] = [];
  for (const output of task.result?.outputs ?? []) files.push(await outputOf(client, taskId, output));
  const attested = await Promise.all(
    attestations.map(async ({ id, jwt }) => {
      const bundle = { jwt, files: id === task.attestation_id ? files : [] };
      const result = await verify(`${taskId} ${id}`, bundle, { ...choice(options), jwks: found.jwks });
      return ofTask(result, taskId, id);
    }),
  );
  if (task.result !== null && !attestations.some(({ id }) => id === task.attestation_id)) {
    attested.push({
      ...{ state: "refused", target: taskId, code: "ATTESTATION_NOT_FOUND" },
      message: `it has a result, and none of the attestations that ${client.gateway} gives is named as the one of that`,
      judged: [],
    });
  }
  return { keys, attested };
}

async function outputOf(client: Client, taskId: string, output: Output): Promise<GivenFile | UnreadFile> {
  try {
    const bytes = await client.tasks.output(taskId, output);
    return { path: output.path, digest: await sha256(bytes), size: bytes.length };
  } catch (error) {
    // what a gateway says of one output is no reason to leave the others unjudged; that none answers is
    const isOfOutput = error instanceof DsecError && /^(DIGEST_MISMATCH|OUTPUT_NOT_FOUND)$/.test(error.code);
    if (!isOfOutput) throw error;
    return { path: output.path, refusal: error };
  }
}

function ofTask(result: Verification, taskId: string, attestationId: string): Verification {
  if (result.state === "refused") return result;
  const { sub, jti } = result.claims;
  if (sub === taskId && jti === attestationId) return result;
  const message = `the gateway gives as this one attestation ${jti} of ${sub}`;
  return { state: "refused", target: result.target, code: "ATTESTATION_INVALID", message, judged: [] };
}

function choice({ issuer, nonce }: Options): Omit<Trust, "jwks"> {
  return { issuer: issuer ?? null, ...(nonce === undefined ? {} : { nonce }) };
}

/** @param target the file or folder that is verified; null where a gateway holds it */
async function keysFor(
  given: string | undefined,
  target: string | null,
): Promise<{ jwks: KeySource; keys: Keys }> {
  if (given !== undefined && /^https?:\/\//.test(given)) {
    note(`keys: ${plainLine(given)}`);
    const jwks = createJwksCache({
      url: given,
      fetch: (address, init) => fetch(address, init),
      now: Date.now,
    });
    return { jwks, keys: { source: given, came_along: false } };
  }
  const path = given ?? (target === null ? undefined : findJwksFile(target));
  if (path === undefined) {
    throw new DsecError(
      "CONFIG_INVALID",
      `no jwks.json beside ${target} or above it; name the gateway's keys with --jwks FILE or --jwks https://…/.well-known/jwks.json`,
    );
  }
  if (given === undefined) note(`keys: ${plainLine(path)}`);
  const jwks = await readJwksFile(path);
  const cameAlong = given === undefined || (target !== null && isWithin(path, target));
  return { jwks, keys: { source: path, came_along: cameAlong } };
}

function isWithin(path: string, folder: string): boolean {
  return realpathSync(path).startsWith(`${realpathSync(folder)}${sep}`);
}

function report(results: Verification[], keys: Keys, explain: boolean): string {
  const paint = paintFor(process.stdout);
  const lines: string[] = [];
  for (const result of results) {
    if (result.state === "refused") {
      lines.push(
        `${paint("red", "✗ refused ")} ${plainLine(result.target)}`,
        ...reasons(result).map((reason) => `    ${plainLine(reason)}`),
      );
      continue;
    }
    const { outcome } = result.claims.dsec.result;
    const end =
      outcome.reason === "exited" ? `exited with ${outcome.exit_code}` : outcome.reason.replaceAll("_", " ");
    const files = result.files.length > 0 ? `; compared ${result.files.join(", ")}` : "";
    const what = `${result.target}: ${result.claims.sub} ${end}${files}`;
    lines.push(`${paint("green", "✓ verified")} ${plainLine(what)}`);
    if (!explain) continue;
    lines.push("", `  ${paint("bold", "Proven")}`, ...result.explanation.proven.map(sentence));
    lines.push("", `  ${paint("bold", "Not proven")}`, ...result.explanation.notProven.map(sentence), "");
  }
  const verified = results.filter(({ state }) => state === "verified").length;
  if (results.length > 1) lines.push(`${verified} of ${results.length} verified`);
  if (!explain && keys.came_along && verified > 0) {
    const source = plainLine(keys.source);
    lines.push(paint("yellow", `${source} came with what it verifies, so this does not prove who signed it`));
  }
  if (!explain && verified > 0)
    lines.push(paint("dim", "--explain says of each what it proves and what it does not"));
  return `${lines.join("\n")}\n`;
}

/** Why a result is refused, which may be because of some of its files: each of those by itself. */
function reasons({ code, message, judged }: Verification & { state: "refused" }): string[] {
  const refused = judged.filter((file) => file.state === "refused");
  if (refused.length === 0) return [`${code}: ${message}`];
  const same = judged.filter(({ state }) => state === "as_attested").map(({ path }) => path);
  return [
    `${code}: ${refused.length} of ${judged.length} files are not as attested`,
    ...refused.map((file) => file.message),
    ...(same.length === 0 ? [] : [`as attested: ${same.join(", ")}`]),
  ];
}

/** One bullet, wrapped to the terminal. */
function sentence(text: string): string {
  const width = Math.max(40, Math.min(process.stdout.columns ?? 110, 110)) - 6;
  const lines: string[] = [];
  let line = "";
  for (const word of plainLine(text).split(" ")) {
    if (line !== "" && line.length + word.length + 1 > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return `  - ${[...lines, line].join("\n    ")}`;
}
