import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { isFinal, TASK_STATES, type TaskState } from "#core/task.ts";
import type { Task, TaskRequest } from "#core/wire/tasks.ts";
import { type ConnectionOptions, connect } from "../connection.ts";
import { readGivenJson } from "../given-file.ts";
import { createOutputWriter } from "../output-writer.ts";
import {
  type Command,
  EXIT,
  examples,
  nestedIn,
  note,
  Option,
  printJson,
  usageError,
  wholeNumber,
} from "../program.ts";
import { withQueueNotes } from "../queue-notes.ts";
import { makeResultFolder, saveResult } from "../result-folder.ts";
import { defineTaskCalls } from "../task-calls.ts";
import { addTaskOptions, type TaskOptions, taskRequest } from "../task-options.ts";
import { type Column, duration, type Paint, paintFor, plainLine, printTable } from "../terminal.ts";

type Common = ConnectionOptions & { json?: boolean };

export function define(command: Command): void {
  const add = nestedIn(command, "gateway");

  const submitCommand = addTaskOptions(add("submit", "submit a task and print its id"))
    .argument("[command...]", "the command, after --")
    .option("--spec <file>", "the whole task as JSON (docs: /docs of the gateway); - reads standard input")
    .option("--idempotency-key <key>", "submitting again with this key gives the first task")
    .option("--wait", "wait for the end; exit 0 only if the task succeeded")
    .action(submit);
  const listCommand = add("list", "list tasks, newest first")
    .addOption(new Option("--state <state>", "only tasks in this state").choices([...TASK_STATES]))
    .option("--label <name=value>", "only tasks with this label")
    .addOption(
      new Option("-n, --limit <n>", "at most so many")
        .default(50)
        .argParser(wholeNumber("--limit", 1, 100_000)),
    )
    .action(list);
  const getCommand = add("get", "show a task").argument("<task-id>").action(get);
  const cancelCommand = add("cancel", "ask for the end of a task").argument("<task-id>").action(cancel);
  const logsCommand = add("logs", "print a task's standard output and error, live until it ends")
    .argument("<task-id>")
    .option("--no-follow", "refuse a task that is not over yet, and wait for none")
    .option("--raw", "leave control codes in, also on a terminal")
    .action(logs);

  const saveCommand = add(
    "save",
    "write a task's outputs and attestation to a folder, as dsec verify reads it",
  )
    .argument("<task-id>")
    .argument("<dir>", "a new or empty folder")
    .action(save);

  defineTaskCalls(add);

  examples(command, [
    ["what is running", "dsec task list --state running"],
    ["submit, and get the id into a variable", "id=$(dsec task submit -- python3 -c 'print(6 * 7)')"],
  ]);
  examples(submitCommand, [
    [
      "a command with inputs and an output",
      "dsec task submit --input agent.py --input data.json --output '*.json' -- python3 /inputs/agent.py",
    ],
    ["a whole task from a file", "dsec task submit --spec task.json --wait"],
  ]);
  examples(listCommand, [
    ["failures of one experiment", "dsec task list --state failed --label experiment=a7 --json"],
  ]);
  examples(getCommand, [["a task with its result", "dsec task get task_01k… --json"]]);
  examples(cancelCommand, [["end a running task", "dsec task cancel task_01k…"]]);
  examples(saveCommand, [
    ["keep a result and check it", "dsec task save task_01k… result && dsec verify result"],
  ]);
  examples(logsCommand, [["follow a running task", "dsec task logs task_01k…"]]);
}

async function submit(
  words: string[],
  options: Common & TaskOptions & { spec?: string; idempotencyKey?: string; wait?: boolean },
  command: Command,
): Promise<void> {
  if ((options.spec === undefined) === (words.length === 0)) {
    throw usageError("give either a command after -- or --spec FILE");
  }
  if (options.spec !== undefined) refuseBeside(command);
  const client = await connect(options);
  const request =
    options.spec === undefined ? await taskRequest(client, words, options) : await readSpec(options.spec);
  let task = await client.tasks.submit(
    request,
    options.idempotencyKey === undefined ? {} : { idempotencyKey: options.idempotencyKey },
  );
  if (options.wait) {
    // whoever stops waiting must be able to find the task again
    note(`waiting for ${task.id}`);
    for await (const _ of withQueueNotes(client, task.id, client.tasks.events(task.id)));
    task = await client.tasks.get(task.id);
    process.exitCode = task.state === "succeeded" ? EXIT.done : EXIT.failed;
  }
  if (options.json) printJson(task);
  else process.stdout.write(options.wait ? describe(task) : `${task.id}\n`);
}

async function list(options: Common & { state?: TaskState; label?: string; limit: number }): Promise<void> {
  const client = await connect(options);
  const filter = {
    ...(options.state === undefined ? {} : { state: options.state }),
    ...(options.label === undefined ? {} : { label: options.label }),
  };
  const tasks: Task[] = [];
  for (let cursor: string | undefined; ; ) {
    const limit = Math.min(options.limit - tasks.length, LIMITS.pageMax);
    const page = await client.tasks.list({ ...filter, limit, ...(cursor === undefined ? {} : { cursor }) });
    tasks.push(...page.items);
    if (page.next_cursor === null || tasks.length >= options.limit) break;
    cursor = page.next_cursor;
  }
  if (options.json) return printJson(tasks);
  const columns: Column[] = [
    { title: "TASK" },
    { title: "STATE" },
    { title: "END", leastWidth: 0 },
    { title: "TIME", align: "right", leastWidth: 0 },
    { title: "CREATED", leastWidth: 0 },
    { title: "COMMAND", leastWidth: 12 },
  ];
  const rows = tasks.map((task) => [
    task.id,
    task.state,
    ending(task),
    runTime(task),
    task.created_at,
    shortCommand(task),
  ]);
  const paint = paintFor(process.stdout);
  const cell = (text: string, row: number, column: number) =>
    row < 0 ? paint("dim", text) : column === 1 ? paintState(paint, tasks[row]!.state, text) : text;
  if (tasks.length === 0) process.stdout.write("no tasks\n");
  else printTable(columns, rows, cell);
}

async function get(id: string, options: Common): Promise<void> {
  const client = await connect(options);
  const task = await client.tasks.get(id);
  if (options.json) return printJson(task);
  const wait = task.state === "queued" ? (await client.tasks.whyQueued(id)).wait : null;
  process.stdout.write(describe(task, wait?.message));
}

async function cancel(id: string, options: Common): Promise<void> {
  const task = await (await connect(options)).tasks.cancel(id);
  if (options.json) printJson(task);
  else if (task.state === "cancelled" || !task.cancel_requested)
    process.stdout.write(`${task.id} is ${task.state}\n`);
  else process.stdout.write(`${task.id} is ${task.state}; its executor was told to end it\n`);
}

async function logs(id: string, options: Common & { follow: boolean; raw?: boolean }): Promise<void> {
  const client = await connect(options);
  if (!options.follow) {
    const task = await client.tasks.get(id);
    if (!isFinal(task.state))
      throw new DsecError(
        "OUTPUT_NOT_FOUND",
        `task ${id} is ${task.state}; without --no-follow its output is printed as it comes`,
      );
  }
  if (options.json) {
    const events: unknown[] = [];
    for await (const event of client.tasks.events(id)) events.push(event);
    return printJson(events);
  }
  const writer = createOutputWriter({ raw: options.raw === true });
  const events = client.tasks.events(id, { signal: writer.broken });
  for await (const event of withQueueNotes(client, id, events)) await writer.event(event);
  await writer.end(await client.tasks.get(id), (name) => client.tasks.stream(id, name));
  if (writer.isReaderGone()) process.exitCode = EXIT.readerGone;
}

async function save(id: string, folder: string, options: Common): Promise<void> {
  const client = await connect(options);
  const task = await client.tasks.get(id);
  makeResultFolder("folder", folder);
  await saveResult(client, task, folder);
  if (options.json) printJson(task);
  else note(`${folder} has the result of ${id}; what it proves: dsec verify ${folder}`);
}

/** What of `dsec task submit` says how to submit, not what: it may stand beside `--spec`. */
const BESIDE_SPEC = ["spec", "idempotencyKey", "wait", "gateway", "data", "json"];

/** A limit on the command line that a file of the whole task would silently override is a mistake. */
function refuseBeside(command: Command): void {
  const given = command.options.filter(
    (option) =>
      !BESIDE_SPEC.includes(option.attributeName()) &&
      command.getOptionValueSource(option.attributeName()) === "cli",
  );
  if (given.length === 0) return;
  const names = given.map((option) => option.long).join(", ");
  throw usageError(`--spec is the whole task: write ${names} into the file`);
}

async function readSpec(path: string): Promise<TaskRequest> {
  const way = "name content by its artifact among the inputs (PUT /v1/artifacts)";
  // the gateway judges the members: it knows its own version of the schema
  return (await readGivenJson(path, "--spec", way)) as TaskRequest;
}

/** A task for people: one fact a line. */
function describe(task: Task, whyQueued?: string): string {
  const paint = paintFor(process.stdout);
  const facts: [string, string][] = [
    ["task", task.id],
    ["state", paintState(paint, task.state, task.state)],
    ...(whyQueued === undefined ? [] : [["waits", plainLine(whyQueued)] satisfies [string, string]]),
    ["command", shortCommand(task, 400)],
    ["image", plainLine(task.spec.image)],
    ["attempts", String(task.attempts)],
    ["created", task.created_at],
  ];
  if (task.started_at) facts.push(["started", task.started_at]);
  if (task.finished_at) facts.push(["finished", `${task.finished_at} (${runTime(task)})`]);
  if (task.result) {
    const { outcome, outputs, stdout, stderr } = task.result;
    facts.push(["end", `${ending(task)}${outcome.message ? `: ${plainLine(outcome.message)}` : ""}`]);
    for (const { path, size, digest } of outputs)
      facts.push(["output", `${plainLine(path)}  ${size} bytes  ${digest}`]);
    facts.push(["stdout", `${stdout.total_bytes} bytes`], ["stderr", `${stderr.total_bytes} bytes`]);
  }
  if (task.attestation_id) facts.push(["attestation", `${task.attestation_id}  (dsec verify ${task.id})`]);
  return facts.map(([name, value]) => `${paint("dim", name.padEnd(12))}${value}\n`).join("");
}

export function ending(task: Task): string {
  const outcome = task.result?.outcome;
  if (!outcome) return "";
  if (outcome.reason === "exited") return `exit ${outcome.exit_code}`;
  return outcome.signal && outcome.reason === "signaled"
    ? outcome.signal
    : outcome.reason.replaceAll("_", " ");
}

export function runTime(task: Task): string {
  if (!task.started_at) return "";
  return duration(Date.parse(task.finished_at ?? new Date().toISOString()) - Date.parse(task.started_at));
}

export function paintState(paint: Paint, state: TaskState, text: string): string {
  if (state === "succeeded") return paint("green", text);
  if (state === "failed" || state === "dead") return paint("red", text);
  return paint(state === "cancelled" ? "yellow" : "cyan", text);
}

function shortCommand(task: Task, charsMax = 60): string {
  const text = plainLine(
    task.spec.command.map((word) => (/^[\w./:=@%+-]+$/.test(word) ? word : JSON.stringify(word))).join(" "),
  );
  return text.length > charsMax ? `${text.slice(0, charsMax - 1)}…` : text;
}
