/**
 * The trace format: how small files are beside JSON lines with `zstd -3`, how fast events are encoded, chained, compressed and
 * written, and read again, and how long it takes to open a large trace and go to a step in it. Rates are by the CPU time of the
 * process, so that other load on the machine changes little.
 */
import { createReadStream, rmSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { constants, zstdCompressSync } from "node:zlib";
import type { Options } from "#bench/main.ts";
import { median, percentile } from "#bench/support/figures.ts";
import { checkpoint, untilInterrupted } from "#bench/support/interrupt.ts";
import { recording } from "#bench/support/recording.ts";
import { searching } from "#bench/support/trace-search.ts";
import { SHARED_FOLDER } from "#test/support/shared.ts";
import { decodeEvent, encodeEvent } from "#trace/events/codec.ts";
import type { EventBody, TraceEvent } from "#trace/events/event.ts";
import { eventLine, headerLine } from "#trace/exchange/event-lines.ts";
import { importTraces } from "#trace/exchange/import.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import { TrajectoryWriter } from "#trace/format/writer.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { FileSink, openTraceFile, type TimedEvent, writeTrace } from "#trace/node/files.ts";

type Run = { header: NewTraceHeader; events: TimedEvent[] };

export async function run(
  say: (line: string) => void,
  { quick, signal }: Options,
): Promise<Record<string, unknown>> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "dsec-bench-trace-"));
  const runs = await airlineRuns();
  const { path } = folder;
  return {
    ...(await sizes(runs, path, say, signal)),
    ...memoryDeltas(runs, say),
    ...(await writing(runs, path, say, signal)),
    ...(await recording(bodiesOf(runs), path, say, signal)),
    ...(await seeking(path, quick ? 100 : 1000, say, signal)),
    ...(await searching(runs, path, quick ? 40_000_000 : 200_000_000, say, signal)),
  };
}

async function airlineRuns(): Promise<Run[]> {
  const path = join(SHARED_FOLDER, "data/tau-airline/episodes.jsonl");
  const options = { stateChanging: null, memoryFromAnswers: true };
  const runs: Run[] = [];
  for await (const { header, events } of importTraces(createReadStream(path), path, "jsonl", options)) {
    const run: Run = { header, events: [] };
    for await (const event of events) run.events.push(event);
    runs.push(run);
  }
  return runs;
}

/** Against the same events as JSON lines: each run in a file of its own, and all of them in one. */
async function sizes(
  runs: Run[],
  folder: string,
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<Record<string, number>> {
  let [each, eachLines] = [0, 0];
  for (const [at, { header, events }] of runs.entries()) {
    await checkpoint(signal);
    const { size, lines } = await written(join(folder, `${at}.trace`), header, events);
    each += size;
    eachLines += lines;
  }
  await checkpoint(signal);
  const { header } = runs[0]!;
  const all = await written(join(folder, "all.trace"), { ...header, labels_json: null }, inOne(runs));
  const figures = {
    size_ratio: ratio(all.size, all.lines),
    size_ratio_each: ratio(each, eachLines),
    size_bytes: all.size,
    size_bytes_each: Math.round(each / runs.length),
  };
  say(
    `size against JSON lines with zstd -3: ${figures.size_ratio} in one file, ${figures.size_ratio_each} a run each`,
  );
  return figures;
}

async function written(
  path: string,
  header: NewTraceHeader,
  events: TimedEvent[],
): Promise<{ size: number; lines: number }> {
  const { size } = await writeTrace(path, header, events);
  const file = await openTraceFile(path);
  const lines: string[] = [];
  for (const segment of file.segments) {
    lines.push(headerLine(segment.header));
    for await (const event of segment.events()) lines.push(eventLine(event));
  }
  await file.close();
  rmSync(path);
  const text = `${lines.map((line) => line.trimEnd()).join("\n")}\n`;
  const params = { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 };
  return { size, lines: zstdCompressSync(text, { params }).length };
}

/** One after another, with numbers of calls and steps that go on. */
function inOne(runs: Run[]): TimedEvent[] {
  const events: TimedEvent[] = [];
  let calls = 0;
  for (const run of runs) {
    const before = calls;
    for (const event of run.events) {
      if (!("call" in event) || typeof event.call !== "number") events.push(event);
      else {
        calls = Math.max(calls, before + event.call);
        events.push({ ...event, call: before + event.call } as TimedEvent);
      }
    }
  }
  return events;
}

/** What the deltas take, against the whole namespace written down at each change. */
function memoryDeltas(runs: Run[], say: (line: string) => void): Record<string, number> {
  let [deltas, dumps, writes] = [0, 0, 0];
  for (const { events } of runs) {
    const entries = new Map<string, number>();
    let entriesBytes = 0;
    for (const { t_us, wall_us, ...body } of events) {
      if (body.type !== "memory_write") continue;
      deltas += encodeEvent(body as EventBody, { seq: ++writes, t_us, wall_skew_us: 0 }).length;
      entriesBytes -= entries.get(body.key) ?? 0;
      const shown = body.new?.value_json;
      const bytes =
        shown === undefined || shown === null ? 0 : `${JSON.stringify(body.key)}:${shown},`.length;
      entries.set(body.key, bytes);
      entriesBytes += bytes;
      dumps += entriesBytes + 2;
    }
  }
  const figures = { memory_delta_saving: Number((1 - deltas / dumps).toFixed(4)), memory_writes: writes };
  say(
    `memory deltas: ${(100 * figures.memory_delta_saving).toFixed(1)} % smaller than full dumps, over ${writes} writes`,
  );
  return figures;
}

/** One writer on a file, flushed at 256 KiB as the recorder does. */
async function writing(
  runs: Run[],
  folder: string,
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<Record<string, number>> {
  const events = bodiesOf(runs);
  const [header] = runs.map((run) => run.header);
  const [writes, reads, decodes]: number[][] = [[], [], []];
  for (let round = 0; round < 6; round++) {
    await checkpoint(signal);
    const path = join(folder, `written-${round}.traj`);
    const writeSeconds = await cpuSeconds(() => {
      const sink = new FileSink(path);
      const writer = new TrajectoryWriter({ ...header!, labels_json: null }, nodeEngine, sink.write);
      for (const body of events) {
        const place = { seq: writer.count + 1, t_us: writer.count, wall_skew_us: 0 };
        writer.add(encodeEvent(body, place), { ...place, type: body.type });
        if (writer.heldBytes >= 256 * 1024) writer.flush();
      }
      writer.seal();
      sink.close();
    });
    const file = await openTraceFile(path);
    const raw: Uint8Array[] = [];
    const readSeconds = await cpuSeconds(async () => {
      for await (const batch of file.segments[0]!.batches()) for (const { bytes } of batch) raw.push(bytes);
    });
    let last: TraceEvent | null = null;
    const decodeSeconds = await cpuSeconds(() => {
      for (const bytes of raw) last = decodeEvent(bytes, 0);
    });
    await file.close();
    if (last === null || raw.length !== events.length) throw new Error("events were lost");
    // the first round warms up
    if (round === 0) continue;
    writes!.push(events.length / writeSeconds);
    reads!.push(events.length / readSeconds);
    decodes!.push(events.length / decodeSeconds);
  }
  const figures = {
    written_per_s: Math.round(median(writes!)),
    read_per_s: Math.round(median(reads!)),
    decoded_per_s: Math.round(median(decodes!)),
  };
  say(
    `events/s of one core: ${figures.written_per_s} written, ${figures.read_per_s} read, ${figures.decoded_per_s} decoded`,
  );
  return figures;
}

function bodiesOf(runs: Run[]): EventBody[] {
  return runs.flatMap((run) => run.events).map(({ t_us, wall_us, ...body }) => body as EventBody);
}

/** Opens the file anew for each step, and reads the event that begins it. */
async function seeking(
  folder: string,
  megabytes: number,
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<Record<string, number>> {
  const path = join(folder, "large.trace");
  const steps = megabytes * 4;
  const { size } = await writeTrace(
    path,
    { trace_id: "large", source: "bench", started_wall_us: 0 },
    untilInterrupted(largeEvents(steps), signal),
  );
  const samples: number[] = [];
  const cpuSamples: number[] = [];
  for (let round = 0; round < 320; round++) {
    await checkpoint(signal);
    const wanted = 1 + Math.floor(Math.random() * steps);
    const before = process.cpuUsage();
    const startedMs = performance.now();
    const file = await openTraceFile(path);
    const seq = await file.segments[0]!.step(wanted);
    for await (const event of file.segments[0]!.events({ fromSeq: seq! })) {
      if (event.type !== "plan_step" || event.step !== wanted)
        throw new Error(`step ${wanted} was not found`);
      break;
    }
    const elapsedMs = performance.now() - startedMs;
    const { user, system } = process.cpuUsage(before);
    await file.close();
    // the first ones warm up
    if (round < 20) continue;
    samples.push(elapsedMs);
    cpuSamples.push((user + system) / 1000);
  }
  const figures = {
    seek_ms: round2(median(samples)),
    seek_ms_p99: round2(percentile(samples, 0.99)),
    seek_cpu_ms: round2(median(cpuSamples)),
    seek_cpu_ms_p99: round2(percentile(cpuSamples, 0.99)),
    seek_file_mb: Math.round(size / 1e6),
    seek_n: samples.length,
  };
  say(
    `open and seek in ${figures.seek_file_mb} MB: p50 ${figures.seek_ms} ms, p99 ${figures.seek_ms_p99} ms; of processor time ${figures.seek_cpu_ms} and ${figures.seek_cpu_ms_p99} ms`,
  );
  return figures;
}

/** With output that does not compress, as the largest files hold. */
function* largeEvents(steps: number): Generator<TimedEvent> {
  let t_us = 0;
  let call = 0;
  const at = () => ({ t_us: ++t_us, wall_us: t_us });
  for (let step = 1; step <= steps; step++) {
    yield { type: "plan_step", state: "begun", step, name: `step ${step}`, ...at() };
    for (let calls = 0; calls < 20; calls++) {
      yield {
        type: "tool_call_start",
        call: ++call,
        kind: "http",
        via: "http",
        tool: "search",
        step,
        ...at(),
      };
      yield {
        type: "output",
        stream: "stdout",
        offset: 0,
        data: crypto.getRandomValues(new Uint8Array(12_500)),
        ...at(),
      };
      yield { type: "tool_call_end", call, state: "answered", tries: 1, duration_us: call, ...at() };
    }
    yield { type: "plan_step", state: "ended", step, name: `step ${step}`, ...at() };
  }
}

async function cpuSeconds(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

function ratio(one: number, other: number): number {
  return Number((one / other).toFixed(3));
}

function round2(ms: number): number {
  return Number(ms.toFixed(2));
}
