/** From a file of another format to the traces in it. */
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { sha256 } from "#core/json.ts";
import { genesisText } from "#trace/events/chain.ts";
import { encodeEvent, rawDigest } from "#trace/events/codec.ts";
import type { EventBody } from "#trace/events/event.ts";
import { concatBytes } from "#trace/format/frames.ts";
import type { NewTraceHeader } from "#trace/format/header.ts";
import { importAtif } from "./atif-import.ts";
import { importEpisode, isEpisode } from "./episodes.ts";
import { isEventLine, parseLine } from "./event-lines.ts";
import { EXPECTED, type ImportFormat } from "./import-formats.ts";
import type { ImportedTrace, ImportOptions, TimedEvent } from "./imported.ts";
import { JsonDocument } from "./json-tree.ts";
import { importMessages } from "./openai-messages.ts";
import { importOtlp } from "./otlp-import.ts";
import { type JsonRecord, readRecords } from "./records.ts";

/** `line` is where the trace begins in the file. */
export type FoundTrace = ImportedTrace & { line: number };

/**
 * The traces of a file in order. The events of one must have been read before the next is asked for: those of a long export are
 * never in memory all at once.
 * @param name of the file, for errors
 * @throws INVALID_REQUEST at the end of a file that held nothing
 */
export async function* importTraces(
  chunks: AsyncIterable<Uint8Array>,
  name: string,
  format: ImportFormat,
  options: ImportOptions,
): AsyncGenerator<FoundTrace> {
  let taken = 0;
  for await (const trace of tracesIn(readRecords(chunks, name), name, format, options)) {
    // A conversation without messages is nothing; an export of a trace without events is that trace.
    if (format !== "openai-messages" || (trace.events as TimedEvent[]).length > 0) taken++;
    yield trace;
  }
  if (taken === 0) {
    throw new DsecError("INVALID_REQUEST", `${name} holds nothing to import: ${EXPECTED[format]}`);
  }
}

async function* tracesIn(
  records: AsyncGenerator<JsonRecord>,
  name: string,
  format: ImportFormat,
  options: ImportOptions,
): AsyncGenerator<FoundTrace> {
  switch (format) {
    case "openai-messages":
      for await (const record of records)
        yield { line: record.line, ...(await importMessages(record, name, options)) };
      return;
    case "atif":
      for await (const record of records)
        yield { line: record.line, ...(await importAtif(record, name, options)) };
      return;
    case "otlp": {
      const all: JsonRecord[] = [];
      for await (const record of records) all.push(record);
      for (const trace of await importOtlp(all, name, options)) yield { line: 1, ...trace };
      return;
    }
    case "jsonl":
      yield* importLines(records, name, options);
  }
}

/** Episodes, and event lines: a header, its events, and the line that ends them, which only lines from elsewhere may lack. */
async function* importLines(
  records: AsyncIterator<JsonRecord>,
  name: string,
  options: ImportOptions,
): AsyncGenerator<FoundTrace> {
  const documentOf = (record: JsonRecord) => new JsonDocument(record.text, `${name}:${record.line}`);
  let next = await records.next();
  while (!next.done) {
    const record = next.value;
    const document = documentOf(record);
    if (isEpisode(document.root)) {
      yield { line: record.line, ...(await importEpisode(document, record, options)) };
      next = await records.next();
      continue;
    }
    if (!isEventLine(document.root)) {
      throw document.refused(
        `it is neither an episode (with steps) nor an event (with a type); ${EXPECTED.jsonl}`,
      );
    }
    const parsed = parseLine(document);
    if (parsed.kind !== "header")
      throw document.refused(`an ${parsed.kind} comes before the line of its trace (type trace)`);
    const { header, claims } = parsed;
    async function* events(): AsyncGenerator<TimedEvent> {
      const chain = await LineChain.of(header);
      for (let seq = 1; ; seq++) {
        next = await records.next();
        const line = next.done ? null : documentOf(next.value);
        const parsed = line === null || isEpisode(line.root) ? null : parseLine(line);
        if (parsed === null || parsed.kind === "header") {
          if (claims === "nothing") return;
          throw document.refused(
            `trace ${header.trace_id} has no line of type end after its event ${seq - 1}: what came then is lost; export it again`,
          );
        }
        if (parsed.kind === "end") {
          if (parsed.events !== seq - 1 || parsed.chain_head !== chain.head) {
            throw line!.refused(
              `it ends a trace of ${parsed.events} events with the chain head ${parsed.chain_head}, but there are ${seq - 1} with ${chain.head}; export it again, or where lines were changed on purpose, take this line and the first one's genesis_digest away`,
            );
          }
          next = await records.next();
          return;
        }
        if (parsed.seq !== seq) throw line!.refused(`event ${parsed.seq} stands where event ${seq} must`);
        await chain.add(parsed.event, seq);
        yield parsed.event;
      }
    }
    yield { line: record.line, header, events: events() };
  }
}

/** The chain that the lines of a trace make. */
class LineChain {
  head: Digest;
  readonly #startedWallUs: number;

  private constructor(head: Digest, startedWallUs: number) {
    this.head = head;
    this.#startedWallUs = startedWallUs;
  }

  static async of({ trace_id, lease_id, fence, started_wall_us }: NewTraceHeader): Promise<LineChain> {
    const of = typeof lease_id === "string" && typeof fence === "number" ? { lease_id, fence } : { trace_id };
    return new LineChain(await sha256(genesisText(of)), started_wall_us);
  }

  async add({ t_us, wall_us, ...body }: TimedEvent, seq: number): Promise<void> {
    const place = { seq, t_us, wall_skew_us: wall_us - this.#startedWallUs - t_us };
    this.head = await sha256(concatBytes([rawDigest(this.head), encodeEvent(body as EventBody, place)]));
  }
}
