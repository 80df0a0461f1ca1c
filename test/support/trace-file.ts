/** A trace as a test looks at it: whole, verified, all events decoded. */
import type { TraceEvent } from "#trace/events/event.ts";
import type { TraceHeader } from "#trace/format/header.ts";
import { openTrace } from "#trace/format/reader.ts";
import { nodeEngine } from "#trace/node/engine.ts";

export type ReadTrace = {
  header: TraceHeader;
  state: "sealed" | "open";
  count: number;
  chain_head: string;
  events: TraceEvent[];
};

/** Throws where any byte of it is not as it was written. */
export async function readTrace(bytes: Uint8Array): Promise<ReadTrace> {
  const source = {
    name: "trace",
    size: bytes.length,
    read: async (offset: number, length: number) => bytes.subarray(offset, offset + length),
  };
  const { segments, damage } = await openTrace(source, nodeEngine);
  const [segment] = segments;
  if (segment === undefined || segments.length > 1) throw new Error(`${segments.length} segments`);
  if (damage !== null && segment.state === "sealed") throw new Error(damage.reason);
  const { chain_head } = await segment.verify();
  const events: TraceEvent[] = [];
  for await (const event of segment.events()) events.push(event);
  return { header: segment.header, state: segment.state, count: segment.count, chain_head, events };
}
