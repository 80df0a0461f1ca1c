/** The subcommands of `dsec task` about what a task did, and what it is told while it runs. */
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { ReadableStream } from "node:stream/web";
import { decodeJwt } from "jose";
import { type Json, parseJson } from "#core/json.ts";
import type { Receipt, ReceiptClaims } from "#core/wire/calls.ts";
import type { PolicyRequest } from "#core/wire/policy.ts";
import { publish } from "#trace/node/files.ts";
import { type ConnectionOptions, connect } from "./connection.ts";
import { readGivenJson } from "./given-file.ts";
import { type Command, examples, note, Option, onStopSignal, printJson, wholeNumber } from "./program.ts";
import { type Column, duration, plainLine, printTable } from "./terminal.ts";

type Common = ConnectionOptions & { json?: boolean };

/** @param add declares a subcommand with the options that all of `dsec task` have */
export function defineTaskCalls(add: (name: string, summary: string) => Command): void {
  const receiptsCommand = add("receipts", "list what came of a task's calls")
    .argument("<task-id>")
    .action(receipts);
  const traceCommand = add("trace", "save the trace of a task: everything that happened in its sandbox")
    .argument("<task-id>")
    .option("-o, --output <file>", "where to; - is standard output (default: TASK.trace)")
    .addOption(
      new Option("--attempt <n>", "an earlier attempt's").argParser(wholeNumber("--attempt", 1, 1_000)),
    )
    .action(trace);
  const observeCommand = add("observe", "put an observation into a running sandbox")
    .argument("<task-id>")
    .argument("<json>", "what the agent is given with its next answer")
    .action(observe);
  const policyCommand = add("policy", "replace what a running task may reach")
    .argument("<task-id>")
    .argument("<file>", "the policy as JSON; - reads standard input")
    .action(policy);
  examples(receiptsCommand, [
    ["every receipt's token, for a verifier", "dsec task receipts task_01k… --json"],
  ]);
  examples(traceCommand, [
    ["save it and check it", "dsec task trace task_01k… -o run.trace && dsec trace validate run.trace"],
  ]);
  examples(observeCommand, [
    ["a hint from a person", `dsec task observe task_01k… '{"hint": "look again"}'`],
  ]);
  examples(policyCommand, [["let it reach nothing any more", "echo '{}' | dsec task policy task_01k… -"]]);
}

async function receipts(id: string, options: Common): Promise<void> {
  const client = await connect(options);
  const found: Receipt[] = [];
  for await (const receipt of client.tasks.receipts(id)) found.push(receipt);
  if (options.json) {
    printJson(found);
    return;
  }
  const columns: Column[] = [
    { title: "CALL", align: "right" },
    { title: "STATUS" },
    { title: "TIME", align: "right" },
    { title: "BYTES", align: "right", leastWidth: 0 },
    { title: "URL", leastWidth: 16 },
  ];
  const rows = found.map(({ receipt }) => {
    const claims = decodeJwt(receipt) as unknown as ReceiptClaims;
    return [
      String(claims.seq),
      claims.error ?? String(claims.status),
      duration(claims.duration_us / 1000),
      String(claims.bytes_down),
      plainLine(claims.url),
    ];
  });
  printTable(columns, rows);
}

async function trace(id: string, options: Common & { output?: string; attempt?: number }): Promise<void> {
  const client = await connect(options);
  const content = await client.tasks.trace(
    id,
    options.attempt === undefined ? {} : { attempt: options.attempt },
  );
  if (options.output === "-") return pipeline(Readable.fromWeb(content as ReadableStream), process.stdout);
  const path = options.output ?? `${id}.trace`;
  onStopSignal();
  const saved = await publish(path, async (sink) => {
    for await (const part of content) sink.write(part);
    return { path };
  });
  if (options.json) printJson(saved);
  else note(`${path} has ${saved.size} bytes`);
}

async function observe(id: string, text: string, options: Common): Promise<void> {
  const content = parseJson(text, "the observation") as Json;
  const observation = await (await connect(options)).tasks.observe(id, content);
  if (options.json) printJson(observation);
  else note(`observation ${observation.seq} is on its way to ${id}`);
}

async function policy(id: string, file: string, options: Common): Promise<void> {
  const given = await readGivenJson(file, "policy", "no policy is so long");
  await (await connect(options)).tasks.setPolicy(id, given as PolicyRequest);
  if (options.json) printJson(given);
  else note(`${id} is judged by this policy within a second`);
}
