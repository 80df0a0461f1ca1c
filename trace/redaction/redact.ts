/**
 * Takes out of a trace what must not leave: values under named fields, what patterns match, and both again wherever else they
 * stand, in any encoding. Three readings: to learn the values, to find them in streams that are cut in pieces, to write.
 */
import type { Digest } from "#core/ids.ts";
import type { TimedEvent } from "#trace/exchange/imported.ts";
import type { NewTraceHeader, TraceHeader } from "#trace/format/header.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { ContentRedactor } from "./content.ts";
import { EventRedactor } from "./events.ts";
import type { Pattern } from "./patterns.ts";

export type RedactionOptions = {
  /** Names whose values go, wherever they name something. */
  fields: readonly string[];
  patterns: readonly Pattern[];
  sha256: (bytes: Uint8Array) => Uint8Array;
  /** Is told of every event, by what it is read for. */
  onEvent?: (reading: "learning" | "looking" | "writing", seq: number) => void;
};

/** What `events` gives has the numbers and times of the trace's own. */
export type RedactedSegment = { header: NewTraceHeader; events(): AsyncGenerator<TimedEvent> };

export type Redaction =
  /** There is nothing to take out. */
  | { state: "clean" }
  | {
      state: "redacted";
      segments: RedactedSegment[];
      /** How often something was taken out, by why; complete once all events were read. */
      counts: ReadonlyMap<string, number>;
    };

/** @param fileDigest of the file that the segments are of */
export async function redact(
  segments: readonly TraceSegment[],
  fileDigest: Digest,
  { fields, patterns, sha256, onEvent = () => {} }: RedactionOptions,
): Promise<Redaction> {
  const content = new ContentRedactor(fields, patterns);
  const redactors = segments.map(() => new EventRedactor(content, sha256));
  for (const [index, segment] of segments.entries()) {
    headerOf(segment.header, content, fileDigest);
    for await (const event of segment.events()) {
      onEvent("learning", event.seq);
      await redactors[index]!.learn(event);
    }
    redactors[index]!.endScan();
  }
  if (content.total === 0 && !redactors.some((redactor) => redactor.cutsStreams)) return { state: "clean" };

  content.finder.learning = false;
  for (const [index, segment] of segments.entries()) {
    const redactor = redactors[index]!;
    redactor.forgetCuts();
    for await (const event of segment.events({ sections: ["plan_execution", "token_logit"] })) {
      onEvent("looking", event.seq);
      redactor.scan(event);
    }
    redactor.endScan();
  }
  content.counts.clear();
  return {
    state: "redacted",
    counts: content.counts,
    segments: segments.map((segment, index) => ({
      header: headerOf(segment.header, content, fileDigest),
      events: () => redactedEvents(segment, redactors[index]!, onEvent),
    })),
  };
}

async function* redactedEvents(
  segment: TraceSegment,
  redactor: EventRedactor,
  onEvent: NonNullable<RedactionOptions["onEvent"]>,
): AsyncGenerator<TimedEvent> {
  for await (const event of segment.events()) {
    onEvent("writing", event.seq);
    const { t_us, wall_us } = event;
    yield { ...(await redactor.redact(event)), t_us, wall_us };
  }
}

function headerOf(header: TraceHeader, content: ContentRedactor, fileDigest: Digest): NewTraceHeader {
  const { version, genesis_digest, ...given } = header;
  // It holds the task's environment and its input: what is found in it goes wherever else it stands.
  if (header.spec_json !== null) content.json(header.spec_json);
  return {
    ...given,
    trace_id: content.text(header.trace_id),
    image: header.image === null ? null : content.text(header.image),
    labels_json: header.labels_json === null ? null : content.json(header.labels_json),
    // the task's digest would confirm a guess of its command or its environment, and a replay is not of changed answers
    spec_digest: null,
    spec_json: null,
    redacted_from_digest: fileDigest,
  };
}
