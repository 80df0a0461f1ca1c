/** Traces as files. A trace appears under its name whole or not at all; a live trajectory grows by whole flushes. */
import { createHash, randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  futimesSync,
  linkSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { encodeEvent } from "#trace/events/codec.ts";
import type { EventBody } from "#trace/events/event.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import { type Damage, openTrace, type TraceFile } from "#trace/format/reader.ts";
import { TrajectoryWriter } from "#trace/format/writer.ts";
import { nodeEngine, sealingEngine } from "./engine.ts";
import { removedAfter } from "./temporary.ts";

/** What an attestation says of a trace. `size` in bytes, `digest` of the file, `chain_head` of its last segment. */
export type SealedTrace = { count: number; chain_head: Digest; digest: Digest; size: number };

/**
 * Reads without waiting for a thread, which on a busy machine takes longer than most reads and than unpacking what was
 * read: a block is a megabyte at most, and lies in the page cache or on a local disk.
 * @throws NOT_FOUND, and what openTrace throws
 */
export async function openTraceFile(path: string): Promise<TraceFile> {
  let fd: number;
  try {
    // of a pipe that has no writer, open would never return
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    throw new DsecError("NOT_FOUND", `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new DsecError("INVALID_REQUEST", `${path} is no regular file`);
    let state: "open" | "closed" = "open";
    const source = {
      name: path,
      size: stats.size,
      read: async (offset: number, length: number) => {
        // its number may be another file's by now
        await letSignalsIn();
        if (state === "closed") throw new DsecError("INTERNAL", `${path} is read after it was closed`);
        return readAt(fd, offset, length);
      },
      close: async () => {
        if (state === "open") closeSync(fd);
        state = "closed";
      },
    };
    return await openTrace(source, nodeEngine);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** What happened, and when: microseconds since the recording's start, and since 1970. */
export type TimedEvent = EventBody & { t_us: number; wall_us: number };

/**
 * Writes a sealed trace under a temporary name and gives it its own once it is on disk.
 * @throws TRACE_EXISTS where the name is taken, TRACE_UNWRITABLE
 */
export function writeTrace(
  path: string,
  header: NewTraceHeader,
  events: AsyncIterable<TimedEvent> | Iterable<TimedEvent>,
): Promise<SealedTrace> {
  return publish(path, async (sink) => {
    const writer = new TrajectoryWriter(header, sealingEngine, sink.write);
    await addEvents(writer, events);
    return writer.seal();
  });
}

/** Refuses what writeTrace would refuse of a trace, and writes nothing. */
export async function checkTrace(
  header: NewTraceHeader,
  events: AsyncIterable<TimedEvent> | Iterable<TimedEvent>,
): Promise<void> {
  const writer = new TrajectoryWriter(header, nodeEngine, () => {});
  await addEvents(writer, events);
  writer.seal();
}

/** @throws TRACE_EXISTS where the name is taken */
export function refuseTaken(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) throw exists(path);
}

async function addEvents(
  writer: TrajectoryWriter,
  events: AsyncIterable<TimedEvent> | Iterable<TimedEvent>,
): Promise<void> {
  const { started_wall_us } = writer.header;
  for await (const { t_us, wall_us, ...body } of events) {
    const place = { seq: writer.count + 1, t_us, wall_skew_us: wall_us - started_wall_us - t_us };
    writer.add(encodeEvent(body as EventBody, place), { ...place, type: body.type });
    await letSignalsIn();
  }
}

/**
 * Makes the trace of a live trajectory: the same events, byte for byte, in fewer and larger blocks and with an index. What
 * the trajectory's writer left unfinished is not taken; `damage` says from where on.
 */
export async function sealTrajectory(
  trajPath: string,
  tracePath: string,
): Promise<SealedTrace & { damage: Damage | null }> {
  const trajectory = await openTraceFile(trajPath);
  try {
    const sealed = await publish(tracePath, async (sink) => {
      let [count, chain_head]: [number, Digest | null] = [0, null];
      for (const segment of trajectory.segments) {
        const writer = new TrajectoryWriter(segment.header, sealingEngine, sink.write);
        for await (const batch of segment.batches()) {
          for (const event of batch) writer.add(event.bytes, event);
        }
        const sealed = writer.seal();
        if (sealed.chain_head !== segment.chainHead) {
          throw new DsecError("TRACE_CORRUPT", `${trajPath}: its events do not end the chain that it names`);
        }
        count += sealed.count;
        chain_head = sealed.chain_head;
      }
      return { count, chain_head: chain_head! };
    });
    return { ...sealed, damage: trajectory.damage };
  } finally {
    await trajectory.close();
  }
}

/** A file that is written from its start to its end, in whole pieces. */
export class FileSink {
  readonly path: string;
  #fd: number;
  #size = 0;
  #torn = false;
  #hash = createHash("sha256");

  /** Makes the file. @throws TRACE_EXISTS where there is one: of two writers on one file the second is refused */
  constructor(path: string) {
    this.path = path;
    try {
      this.#fd = openSync(path, "wx", 0o644);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "EEXIST") throw exists(path);
      throw this.#unwritable(cause);
    }
  }

  get size(): number {
    return this.#size;
  }

  /** SHA-256 of all that was written. */
  digest(): Digest {
    return digestOf(this.#hash.copy().digest());
  }

  /**
   * All of it or, where that fails, nothing: what a full disk left of it is cut off again, so that nothing is ever written
   * after a torn piece. @throws TRACE_UNWRITABLE; the same bytes can be written again once there is room
   */
  readonly write = (bytes: Uint8Array): void => {
    try {
      if (this.#torn) this.#cut();
      let written = 0;
      while (written < bytes.length) {
        this.#torn = true;
        written += writeSync(this.#fd, bytes, written, bytes.length - written, this.#size + written);
      }
      this.#torn = false;
    } catch (cause) {
      try {
        this.#cut();
      } catch {
        // tried again before the next write
      }
      throw this.#unwritable(cause);
    }
    this.#size += bytes.length;
    this.#hash.update(bytes);
  };

  /** Returns once the file's content survives a power cut. */
  sync(): void {
    try {
      fsyncSync(this.#fd);
    } catch (cause) {
      throw this.#unwritable(cause);
    }
  }

  /** Makes the file as new as if it were written to. Where that is refused writing is too, which is told then. */
  touch(nowMs: number): void {
    try {
      futimesSync(this.#fd, nowMs / 1000, nowMs / 1000);
    } catch {}
  }

  close(): void {
    closeSync(this.#fd);
  }

  #cut(): void {
    ftruncateSync(this.#fd, this.#size);
    this.#torn = false;
  }

  #unwritable(cause: unknown): DsecError {
    const { code, message } = cause as NodeJS.ErrnoException;
    const wayOut =
      code === "ENOSPC" || code === "EDQUOT"
        ? "free space on its disk"
        : "see that its folder can be written";
    return new DsecError(
      "TRACE_UNWRITABLE",
      `${this.path} cannot be written: ${message}; ${wayOut} and try again`,
      {
        cause,
      },
    );
  }
}

/**
 * What `write` puts into the sink appears under the name once it is on disk, or not at all.
 * @throws TRACE_EXISTS where the name is taken, TRACE_UNWRITABLE
 */
export async function publish<T extends object>(
  path: string,
  write: (sink: FileSink) => Promise<T>,
): Promise<T & { digest: Digest; size: number }> {
  // known before the work of hours; the link below sees who is faster
  if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) throw exists(path);
  const temporary = join(dirname(path), temporaryName(basename(path)));
  const sink = new FileSink(temporary);
  const remove = () => {
    sink.close();
    rmSync(temporary, { force: true });
  };
  return removedAfter(remove, async () => {
    const made = await write(sink);
    sink.sync();
    giveName(temporary, path);
    return { ...made, digest: sink.digest(), size: sink.size };
  });
}

/**
 * Gives a file that is whole, and closed, the name in place of its own once it is on disk.
 * @throws TRACE_EXISTS where the name is taken, TRACE_UNWRITABLE; the file is still there
 */
export function publishWritten(written: string, path: string): void {
  sync(written);
  giveName(written, path);
  rmSync(written);
}

/** A second name, which survives a power cut: unlike a rename, a link never replaces what has the name already. */
function giveName(written: string, path: string): void {
  try {
    linkSync(written, path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "EEXIST") throw exists(path);
    throw new DsecError("TRACE_UNWRITABLE", `${path} cannot be made: ${(cause as Error).message}`, { cause });
  }
  sync(dirname(path));
}

/** The name of a file until it has its own, which is `name`. */
export function temporaryName(name: string): string {
  return `${temporaryStart(name)}${randomBytes(6).toString("hex")}.tmp`;
}

/** As much of the name as leaves room in the 255 bytes that one may have: a character has three at most. */
function temporaryStart(name: string): string {
  return `.${name.slice(0, 79)}.`;
}

/** Removes what a process left that was killed while it published under this name. */
export function removeUnpublished(path: string): void {
  const start = temporaryStart(basename(path));
  for (const name of readdirSync(dirname(path))) {
    if (name.startsWith(start) && /^[0-9a-f]{12}\.tmp$/.test(name.slice(start.length))) {
      rmSync(join(dirname(path), name), { force: true });
    }
  }
}

const COMPUTING_MS = 50;
let computingSinceMs = 0;

/** Neither signals nor timers are heard while computing never waits, which a large file takes minutes of. */
async function letSignalsIn(): Promise<void> {
  if (performance.now() - computingSinceMs < COMPUTING_MS) return;
  await setImmediate();
  computingSinceMs = performance.now();
}

/** Of a file its content, of a folder its names. */
function sync(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function readAt(fd: number, offset: number, length: number): Uint8Array {
  const bytes = new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
  let filled = 0;
  while (filled < length) {
    const count = readSync(fd, bytes, filled, length - filled, offset + filled);
    if (count === 0) return bytes.subarray(0, filled);
    filled += count;
  }
  return bytes;
}

function exists(path: string): DsecError {
  return new DsecError("TRACE_EXISTS", `${path} exists already; choose another name, or remove it first`);
}
