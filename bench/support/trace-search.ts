/** How fast a large trace is searched, by the CPU time of the process over the bytes of its events as they are unpacked. */
import { join } from "node:path";
import { checkpoint, untilInterrupted } from "#bench/support/interrupt.ts";
import { encodeEvent } from "#trace/events/codec.ts";
import type { EventBody } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import { nodeIndexOf } from "#trace/node/engine.ts";
import { openTraceFile, type TimedEvent, writeTrace } from "#trace/node/files.ts";
import { readQuery } from "#trace/query/check.ts";
import { search } from "#trace/query/search.ts";

const QUERIES = {
  by_tool: 'tool == "book_reservation"',
  by_memory: 'memory_state["reservation/HATHAT/cabin"] == "economy" and tool == "calculate"',
  by_member: 'type == "tool_call_end" and is_error and output_bytes > 60',
  by_answer: 'answer.reservation_id == "WUNA5K"',
  by_argument: 'type == "tool_call_start" and arguments.user_id == "mia_li_3668"',
  by_text: 'any contains "HAT136"',
} as const;

export async function searching(
  runs: readonly { header: NewTraceHeader; events: readonly TimedEvent[] }[],
  folder: string,
  bytes: number,
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<Record<string, number>> {
  const path = join(folder, "search.trace");
  let written = 0;
  let calls = 0;
  function* repeated(): Generator<TimedEvent> {
    for (let seq = 0; written < bytes; ) {
      for (const { events } of runs) {
        const before = calls;
        for (const { t_us, wall_us, ...rest } of events) {
          let body = rest as EventBody;
          if ("call" in body && typeof body.call === "number") {
            calls = Math.max(calls, before + body.call);
            body = { ...body, call: before + body.call } as EventBody;
          }
          written += encodeEvent(body, { seq: ++seq, t_us, wall_skew_us: 0 }).length;
          yield { ...body, t_us, wall_us };
        }
      }
    }
  }
  const header = { ...runs[0]!.header, labels_json: null };
  const { count } = await writeTrace(path, header, untilInterrupted(repeated(), signal));
  const figures: Record<string, number> = { search_events: count };
  const rates: number[] = [];
  for (const [name, text] of Object.entries(QUERIES)) {
    const query = readQuery(text);
    let best = 0;
    let found = 0;
    for (let round = 0; round < 3; round++) {
      await checkpoint(signal);
      const file = await openTraceFile(path);
      const before = process.cpuUsage();
      found = 0;
      for (const segment of file.segments) {
        for await (const _match of search(segment, query, nodeIndexOf)) found++;
      }
      const { user, system } = process.cpuUsage(before);
      await file.close();
      best = Math.max(best, written / (user + system));
    }
    // a search that finds nothing would be fast for no reason
    if (found === 0) throw new Error(`${text} finds nothing`);
    rates.push(best);
    figures[`search_mb_per_s_${name}`] = Math.round(best);
    say(`search ${text}: ${Math.round(best)} MB/s, ${found} of ${count} events`);
  }
  figures.search_mb_per_s = Math.round(Math.min(...rates));
  return figures;
}
