/**
 * The thread that takes events out of the ring and writes them: one trajectory for each sandbox, chained, compressed and
 * flushed by size or time. It does nothing else, so that a producer seldom waits for it.
 */
import { parentPort, workerData } from "node:worker_threads";
import { LIMITS } from "#core/limits.ts";
import { RingCollector, type RingRecord } from "#native/index.ts";
import { EVENT_TYPES } from "#trace/events/event.ts";
import { TrajectoryWriter } from "#trace/format/writer.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { FileSink } from "#trace/node/files.ts";
import { type CollectorMessage, type CollectorSetup, type Opening, RECORD } from "./protocol.ts";

const FLUSH_BYTES = 256 * 1024;
/** Events are on disk after twice this at most: so long in the ring, and so long held to be compressed together. */
const FLUSH_MS = 125;
/** A trajectory whose attempt waits in silence is not to look like one that nobody writes any more (`dsec trace cleanup`). */
const TOUCH_MS = LIMITS.cleanUpLiveMs / 6;
/** Nobody is in haste for events: a thread that is woken for each takes the processor from the sandbox that they are of. */
const GATHER_BYTES = 256 * 1024;
const BATCH_BYTES = 8 * 1024 * 1024;

const { ringDescriptor, flushedBytes } = workerData as CollectorSetup;
const flushed = new BigInt64Array(flushedBytes);
const ring = new RingCollector(ringDescriptor, BATCH_BYTES);
const open = new Map<number, Recorded>();

class Recorded {
  readonly #slot: number;
  readonly #sink: FileSink;
  readonly #writer: TrajectoryWriter;
  #state: "whole" | "failing" | "torn" = "whole";
  #lost = 0;
  #touchedMs = Date.now();
  /** When what is held is to be written. */
  dueAtMs = Number.POSITIVE_INFINITY;

  constructor(slot: number, { path, header }: Opening) {
    this.#slot = slot;
    this.#sink = new FileSink(path);
    this.#writer = new TrajectoryWriter(header, nodeEngine, this.#sink.write);
  }

  add({ kind, timeUs, bytes }: RingRecord, nowMs: number): void {
    // What follows a lost event would break the chain: the file ends where it is still true.
    if (this.#state === "torn") {
      this.#lose("an event before it was lost");
      return;
    }
    try {
      const place = { seq: this.#writer.count + 1, t_us: timeUs, type: EVENT_TYPES[kind]! };
      this.#writer.add(Uint8Array.prototype.slice.call(bytes), place);
    } catch (error) {
      this.#state = "torn";
      this.#lose((error as Error).message);
      return;
    }
    this.dueAtMs = Math.min(this.dueAtMs, nowMs + FLUSH_MS);
    if (this.#writer.heldBytes >= FLUSH_BYTES && this.#state === "whole") this.flush(nowMs);
  }

  /** A full disk may have room again in a moment: what is held stays held, and is written then. */
  flush(nowMs: number): void {
    try {
      this.#flush();
      if (this.#state === "failing") this.#state = "whole";
    } catch (error) {
      this.dueAtMs = nowMs + FLUSH_MS;
      if (this.#state !== "whole") return;
      this.#state = "failing";
      tell({ type: "failed", slot: this.#slot, message: (error as Error).message, lost: this.#lost });
    }
  }

  /** @param wallMs since 1970: it goes on while a host sleeps, and files' ages with it */
  touch(wallMs: number): void {
    if (Math.abs(wallMs - this.#touchedMs) < TOUCH_MS) return;
    this.#touchedMs = wallMs;
    this.#sink.touch(wallMs);
  }

  /** The sandbox has ended. A short one has never been flushed: then its file is its trace but for the name. */
  end(): void {
    const slot = this.#slot;
    try {
      if (this.#state === "torn") throw new Error(`${this.#lost} of its events were lost`);
      if (this.#writer.flushed > 0) {
        this.#flush();
        tell({ type: "closed", slot });
      } else {
        const sealed = this.#writer.seal();
        const trace = { ...sealed, digest: this.#sink.digest(), size: this.#sink.size };
        tell({ type: "sealed", slot, trace });
      }
    } catch (error) {
      tell({ type: "unwritable", slot, message: (error as Error).message });
    } finally {
      this.#sink.close();
    }
  }

  #flush(): void {
    this.#writer.flush();
    this.dueAtMs = Number.POSITIVE_INFINITY;
    Atomics.store(flushed, this.#slot, BigInt(this.#sink.size));
  }

  #lose(message: string): void {
    this.#lost++;
    tell({ type: "failed", slot: this.#slot, message, lost: this.#lost });
  }
}

tell({ type: "ready" });
try {
  while (collect());
} finally {
  // A producer that waits for room is told that there will be none.
  ring.close();
}

/** Takes and writes what there is, and waits for more. False once it is told to stop. */
function collect(): boolean {
  const held = [...open.values()].filter((recorded) => recorded.dueAtMs < Number.POSITIVE_INFINITY);
  const dueAtMs = Math.min(...held.map((recorded) => recorded.dueAtMs));
  ring.wait(GATHER_BYTES, Math.min(FLUSH_MS, dueAtMs - performance.now()));
  const nowMs = performance.now();
  for (const recorded of held) if (recorded.dueAtMs <= nowMs) recorded.flush(nowMs);
  const wallMs = Date.now();
  for (const recorded of open.values()) recorded.touch(wallMs);
  for (const record of ring.drain()) {
    if (record.kind === RECORD.stop) return stop();
    take(record, nowMs);
  }
  return true;
}

function take(record: RingRecord, nowMs: number): void {
  const { slot, kind } = record;
  const recorded = open.get(slot);
  if (kind === RECORD.end) {
    if (recorded !== undefined) recorded.end();
    else tell({ type: "unwritable", slot, message: "its file could not be made" }); // why was told at its begin
    open.delete(slot);
  } else if (kind === RECORD.flush) {
    // Where the disk refuses, "failed" was told before.
    recorded?.flush(nowMs);
    tell({ type: "flushed", slot });
  } else if (kind !== RECORD.open) recorded?.add(record, nowMs);
  else {
    try {
      open.set(slot, new Recorded(slot, JSON.parse(new TextDecoder().decode(record.bytes)) as Opening));
    } catch (error) {
      tell({ type: "failed", slot, message: (error as Error).message, lost: 0 });
    }
  }
}

/** Nobody's sandbox runs any more; what a recording still holds is for the next life to find. */
function stop(): boolean {
  for (const recorded of open.values()) recorded.flush(performance.now());
  return false;
}

function tell(message: CollectorMessage): void {
  parentPort!.postMessage(message);
}
