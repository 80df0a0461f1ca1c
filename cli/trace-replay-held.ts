/** How a replayed agent stands that is kept waiting: for programs, for people, and for people who ask. */
import { createInterface } from "node:readline/promises";
import { DsecError } from "#core/errors.ts";
import { type Entry, listFolder, readStart } from "#executor/replay/look.ts";
import type { SandboxProcess } from "#executor/replay/processes.ts";
import type { HeldSandbox } from "#executor/replay/run-replay.ts";
import { byteCount, paintFor, plainLine, table } from "./terminal.ts";

export type HeldState = Awaited<ReturnType<typeof stateOf>>;

/** The state whole, as it is printed with --json. */
export async function stateOf({ call, memory, stdout, stderr, pid, processes }: HeldSandbox) {
  return {
    call: call === null ? null : shownCall(call),
    memory_json: await memory(),
    stdout_base64: stdout().toString("base64"),
    stderr_base64: stderr().toString("base64"),
    files: filesOf(pid),
    processes: processes(),
  };
}

/** The same for people. */
export function stateText({ call, memory_json, files, processes }: HeldState): string {
  const lines = [
    ...(call === null ? [] : callLines(call)),
    `  memory  ${shortLine(memory_json)}`,
    `  files   ${files.length === 0 ? "none" : FOLDER}`,
    ...files.map((entry) => `    ${entryLine(entry)}`),
    "  processes",
    ...processLines(processes).map((line) => `    ${line}`),
  ];
  return `${lines.join("\n")}\n`;
}

/** Asks until the user goes on or ends; past a divergence there is no going on. */
export async function lookAround(
  sandbox: HeldSandbox,
  calls: number,
): Promise<{ next: "end" } | { next: "go on"; holdAt: number | null }> {
  const { call, divergence } = sandbox;
  const paint = paintFor(process.stdout);
  const say = (text: string) => process.stdout.write(`${text}\n`);
  if (call === null) say(`${paint("bold", "diverged")}: ${plainLine(divergence.message)}`);
  else {
    say(paint("bold", `call ${call.start.call} of ${calls}`));
    for (const line of callLines(shownCall(call))) say(line);
  }
  const going = call === null ? "" : "[n]ext [c]ontinue ";
  const prompt = createInterface({ input: process.stdin, output: process.stdout });
  // Its input may end, as a terminal that is closed does.
  const closed = new Promise<"q">((resolve) => prompt.once("close", () => resolve("q")));
  try {
    for (;;) {
      const asked = prompt.question(`${going}[m]emory [o]utput ls cat ps [q]uit> `);
      const [word = "", ...rest] = (await Promise.race([asked, closed])).trim().split(/\s+/);
      const path = rest.join(" ") || FOLDER;
      try {
        if (call !== null && word === "n") return { next: "go on", holdAt: call.start.call + 1 };
        if (call !== null && word === "c") return { next: "go on", holdAt: null };
        if (word === "q") return { next: "end" };
        if (word === "m") say(shortLine(await sandbox.memory()));
        else if (word === "o") say(shortLine(sandbox.stdout().toString("utf8")));
        else if (word === "ls") for (const entry of listFolder(sandbox.pid, path)) say(entryLine(entry));
        else if (word === "cat") say(shortLine(readStart(sandbox.pid, path, SHOWN_CHARS).toString("utf8")));
        else if (word === "ps") for (const line of processLines(sandbox.processes())) say(line);
        else say(`${call === null ? "" : "n: next call, c: to the end, "}${HELP}`);
      } catch (error) {
        if (!(error instanceof DsecError)) throw error;
        say(plainLine(error.message));
      }
    }
  } finally {
    prompt.close();
  }
}

/** Text from a sandbox in one line, as much of it as is worth showing. */
export function shortLine(text: string | null): string {
  const line = plainLine((text ?? "").slice(0, SHOWN_CHARS));
  return (text ?? "").length > SHOWN_CHARS ? `${line}…` : line;
}

const FOLDER = "/work";
const SHOWN_CHARS = 4_000;
const HELP = "m: memory, o: output so far, ls PATH, cat PATH, ps: processes, q: quit";

type RecordedCall = NonNullable<HeldSandbox["call"]>;
type ShownCall = ReturnType<typeof shownCall>;

function shownCall({ start, end }: RecordedCall) {
  const { call, tool, kind, method, url, arguments_json, step } = start;
  const state = end?.state ?? null;
  return { call, tool, kind, method, url, arguments_json, step, state, answer: answerText(end) };
}

function answerText(end: RecordedCall["end"]): string | null {
  if (end === null) return null;
  const { output_json, body } = end.answer ?? { output_json: null, body: null };
  return output_json ?? (body === null ? end.text : Buffer.from(body).toString("utf8").toWellFormed());
}

function callLines({ call, tool, method, url, arguments_json, state, answer }: ShownCall): string[] {
  return [
    `  call    ${call}: ${plainLine(tool ?? `${method} ${url}`)}`,
    `  asks    ${shortLine(arguments_json)}`,
    `  answer  ${state === null ? "not recorded" : `${state}: ${shortLine(answer)}`}`,
  ];
}

/** Empty where the sandbox has ended, or has no such folder. */
function filesOf(pid: number): Entry[] {
  try {
    return listFolder(pid, FOLDER);
  } catch (error) {
    if (error instanceof DsecError || (error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

function entryLine({ name, kind, size, target }: Entry): string {
  const shown =
    kind === "directory" ? "/" : kind === "link" ? ` -> ${plainLine(target ?? "")}` : `  ${byteCount(size)}`;
  return `${plainLine(name)}${shown}`;
}

function processLines(processes: SandboxProcess[]): string[] {
  const rows = processes.map(({ pid, parent_pid, state, name, command }) => [
    ...[String(pid), String(parent_pid), state],
    command.length === 0 ? `[${plainLine(name)}]` : shortLine(command.map(argument).join(" ")),
  ]);
  const columns = [
    { title: "PID", align: "right" },
    { title: "PARENT", align: "right" },
    { title: "STATE" },
    { title: "COMMAND" },
  ] as const;
  return table([...columns], rows).split("\n");
}

/** As it is where it needs no quotes. */
function argument(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : JSON.stringify(text);
}
