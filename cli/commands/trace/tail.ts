import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DsecError } from "#core/errors.ts";
import type { Client } from "#sdk/client.ts";
import type { TraceEvent } from "#trace/events/event.ts";
import { followTrajectory } from "#trace/format/follow.ts";
import type { TraceHeader } from "#trace/format/header.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { openTraceFile, publish } from "#trace/node/files.ts";
import { removedAfter } from "#trace/node/temporary.ts";
import { connect } from "../../connection.ts";
import {
  type Command,
  dataOption,
  examples,
  gatewayOption,
  note,
  onStopSignal,
  wholeNumber,
} from "../../program.ts";
import { paintFor } from "../../terminal.ts";
import { failedWithin, LinePrinter, recordedJson } from "../../trace-segments.ts";
import { Timeline } from "../../trace-timeline.ts";

type Options = { attempt?: number; json?: boolean; gateway?: string; data: string };

export function define(command: Command): void {
  command
    .argument("<task-id>")
    .option("--attempt <n>", "that one, in place of the newest", wholeNumber("--attempt", 1, 1_000))
    .addOption(gatewayOption())
    .addOption(dataOption())
    .action(run);
  examples(command, [
    ["what a running task does, as it does it", "dsec trace tail task_01k…"],
    ["for a program, an event a line", "dsec trace tail task_01k… --json | grep tool_call_end"],
  ]);
  command.addHelpText(
    "after",
    `
Events come about a second after they happened; the last ones of an attempt come with its end. With --json the result is one
array, an event on each line; a failure half-way is its last element, {"error": …}.`,
  );
}

async function run(id: string, options: Options): Promise<void> {
  onStopSignal();
  const client = await connect(options);
  const printer = new LinePrinter();
  const timeline = new Timeline(paintFor(process.stdout));
  let printed = 0;
  const print = async (event: TraceEvent) => {
    const before = printed === 0 ? "[" : ",";
    printed = event.seq;
    return printer.print(options.json ? `${before}${recordedJson(event)}` : timeline.line(event));
  };
  const which = options.attempt === undefined ? {} : { attempt: options.attempt };
  let header: TraceHeader | null = null;
  const parts = client.tasks.followTrace(id, which);
  try {
    for await (const followed of followTrajectory(parts, nodeEngine, `the trajectory of ${id}`)) {
      if (followed.kind === "header") {
        header = followed.header;
        if (!options.json) note(`${id}, attempt ${header.attempt}`);
        continue;
      }
      for (const event of followed.events) if (!(await print(event))) return;
    }
    const attempt = header?.attempt ?? options.attempt;
    for await (const event of eventsAfter(client, id, attempt, () => printed))
      if (!(await print(event))) return;
  } catch (error) {
    if (!options.json || printed === 0) throw error;
    await printer.print(`,{"error":${failedWithin(error)}}]`);
    return;
  }
  if (options.json) await printer.print(printed === 0 ? "[]" : "]");
}

/** What the sealed trace has beyond what was sent live; nothing where the attempt left none. */
async function* eventsAfter(
  client: Client,
  id: string,
  attempt: number | undefined,
  last: () => number,
): AsyncGenerator<TraceEvent> {
  const folder = mkdtempSync(join(tmpdir(), "dsec-tail-"));
  try {
    // the folder is not needed once the file is open
    const file = await removedAfter(
      () => rmSync(folder, { recursive: true }),
      async () => {
        const path = join(folder, "trace");
        const content = await client.tasks.trace(id, attempt === undefined ? {} : { attempt });
        await publish(path, async (sink) => {
          for await (const part of content) sink.write(part);
          return {};
        });
        return openTraceFile(path);
      },
    );
    try {
      for (const segment of file.segments) yield* segment.events({ fromSeq: last() + 1 });
    } finally {
      await file.close();
    }
  } catch (error) {
    if (!(error instanceof DsecError && error.code === "OUTPUT_NOT_FOUND")) throw error;
  }
}
