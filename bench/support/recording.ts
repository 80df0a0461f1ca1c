/** The way of events from an executor to disk: the ring, the thread that empties it, the trace that is sealed at the end. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { median } from "#bench/support/figures.ts";
import { checkpoint } from "#bench/support/interrupt.ts";
import type { Lease } from "#core/wire/leases.ts";
import { TaskSpecSchema } from "#core/wire/tasks.ts";
import { EventLog, type MembersOf } from "#executor/channel/event-log.ts";
import { Collector } from "#executor/trace/collector.ts";
import type { EventBody, EventType } from "#trace/events/event.ts";

/**
 * Events of recorded runs, appended as fast as one thread can, until they are chained, compressed and on disk. Rates are by
 * the CPU time of the whole process, its threads included: so many there would be on one core with nothing beside.
 */
export async function recording(
  events: readonly EventBody[],
  folder: string,
  say: (line: string) => void,
  signal: AbortSignal,
): Promise<Record<string, number>> {
  const collector = await Collector.start();
  const traces = join(folder, "recorded");
  const [rates, appendUs, sealMs]: number[][] = [[], [], []];
  const many = Array.from({ length: 8 }, () => events).flat();
  try {
    for (let round = 0; round < 6; round++) {
      await checkpoint(signal);
      const log = EventLog.open(collector, traces, leaseOf(round));
      const all = process.cpuUsage();
      const own = process.threadCpuUsage();
      for (const { type, ...members } of many) log.append(type, members as MembersOf<EventType>);
      const { user, system } = process.threadCpuUsage(own);
      // Until the last flush, which comes by itself after a quarter of a second.
      while (collector.counters().collected < collector.counters().produced) await sleep(5);
      await sleep(400);
      const spent = process.cpuUsage(all);
      await log.seal();
      // the first round warms up
      if (round === 0) continue;
      rates!.push(many.length / ((spent.user + spent.system) / 1e6));
      appendUs!.push((user + system) / many.length);
    }
    for (let round = 100; round < 150; round++) {
      await checkpoint(signal);
      const log = EventLog.open(collector, traces, leaseOf(round));
      for (const { type, ...members } of events.slice(0, 60))
        log.append(type, members as MembersOf<EventType>);
      const fromMs = performance.now();
      await log.seal();
      sealMs!.push(performance.now() - fromMs);
    }
    const { lost, waits, waitedUs } = collector.counters();
    const figures = {
      events_per_s: Math.round(median(rates!)),
      append_us: Number(median(appendUs!).toFixed(2)),
      seal_short_ms: Number(median(sealMs!).toFixed(2)),
      ...{ lost, waited: waits, waited_ms: Math.round(waitedUs / 1000) },
    };
    say(
      `recorded by an executor: ${figures.events_per_s} events/s of one core's time, of which ${figures.append_us} µs each where it ` +
        `happens; ${lost} lost, waited ${waits} times for ${figures.waited_ms} ms; a run of 60 events sealed, on disk, in ${figures.seal_short_ms} ms`,
    );
    return figures;
  } finally {
    await collector.close();
  }
}

function leaseOf(number: number): Lease {
  const id = String(number).padStart(26, "0");
  return {
    ...{ lease_id: `lease_${id}`, task_id: `task_${id}`, key_id: `key_${id}`, fence: 1, attempt: 1 },
    ...{ ttl_ms: 30_000, expires_at: "2026-01-01T00:00:00.000Z", spec_digest: `sha256:${"0".repeat(64)}` },
    spec: TaskSpecSchema.parse({ command: ["true"] }),
  };
}
