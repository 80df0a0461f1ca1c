import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { encodeEvent } from "#trace/events/codec.ts";
import type { EventBody } from "#trace/events/event.ts";
import type { Damage } from "#trace/format/reader.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { TrajectoryWriter } from "#trace/format/writer.ts";
import {
  type RedactedSegment,
  type Redaction,
  type RedactionOptions,
  redact,
} from "#trace/redaction/redact.ts";
import { nodeEngine } from "./engine.ts";
import { type FileSink, openTraceFile, publish, type SealedTrace } from "./files.ts";

/** `counts`: how often something was taken out, by why. Never what. `damage`: from where on the file could not be read. */
export type RedactedFile = SealedTrace & {
  from_digest: Digest;
  counts: Record<string, number>;
  damage: Damage | null;
};

/**
 * Writes the file's events without what must go, chained anew. Where there is nothing to take out, they are the same bytes with
 * the same chain, so that redacting twice is redacting once.
 * @throws TRACE_CORRUPT, TRACE_EXISTS, TRACE_UNWRITABLE
 */
export async function redactFile(
  input: string,
  output: string,
  options: Omit<RedactionOptions, "sha256">,
): Promise<RedactedFile> {
  const from_digest = await digestOfFile(input);
  const trace = await openTraceFile(input);
  try {
    return await publish(output, async (sink) => {
      const redaction = await redact(trace.segments, from_digest, { ...options, sha256: nodeEngine.sha256 });
      const written = await write(trace.segments, redaction, sink);
      const counts = redaction.state === "clean" ? [] : [...redaction.counts].sort();
      return { ...written, from_digest, counts: Object.fromEntries(counts), damage: trace.damage };
    });
  } finally {
    await trace.close();
  }
}

async function write(segments: readonly TraceSegment[], redaction: Redaction, sink: FileSink) {
  let count = 0;
  let chain_head: Digest | null = null;
  for (const [index, segment] of segments.entries()) {
    const writer =
      redaction.state === "clean"
        ? await writeSame(segment, sink)
        : await writeRedacted(redaction.segments[index]!, sink);
    const sealed = writer.seal();
    count += sealed.count;
    chain_head = sealed.chain_head;
  }
  return { count, chain_head: chain_head! };
}

async function writeSame(segment: TraceSegment, sink: FileSink): Promise<TrajectoryWriter> {
  const writer = new TrajectoryWriter(segment.header, nodeEngine, sink.write);
  for await (const batch of segment.batches()) for (const event of batch) writer.add(event.bytes, event);
  return writer;
}

async function writeRedacted({ header, events }: RedactedSegment, sink: FileSink): Promise<TrajectoryWriter> {
  const writer = new TrajectoryWriter(header, nodeEngine, sink.write);
  for await (const { t_us, wall_us, ...body } of events()) {
    const place = { seq: writer.count + 1, t_us, wall_skew_us: wall_us - header.started_wall_us - t_us };
    writer.add(encodeEvent(body as EventBody, place), { ...place, type: body.type });
  }
  return writer;
}

async function digestOfFile(path: string): Promise<Digest> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return digestOf(hash.digest());
}
