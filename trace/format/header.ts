import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { genesisText } from "#trace/events/chain.ts";
import { decodeMessage, encodeMessage } from "#trace/events/codec.ts";
import type { JsonText } from "#trace/events/event.ts";
import type { Engine } from "./engine.ts";
import {
  concatBytes,
  corruptAt,
  HEADER_MAGIC,
  type Place,
  placed,
  startsWith,
  unsupportedAt,
} from "./frames.ts";

/** What a trace says of itself: FileHeader of proto/trace.proto, and the chain before the first event, which follows from it. */
export type TraceHeader = {
  version: number;
  trace_id: string;
  source: string;
  started_wall_us: number;
  genesis_digest: Digest;
  task_id: string | null;
  lease_id: string | null;
  fence: number | null;
  attempt: number | null;
  spec_digest: Digest | null;
  image: string | null;
  level: string | null;
  redacted_from_digest: Digest | null;
  labels_json: JsonText | null;
  spec_json: JsonText | null;
  replayed_from_digest: Digest | null;
  replayed_until_call: number | null;
  replayed_until_step: number | null;
  told_wall_us: number | null;
};

type Given = "trace_id" | "source" | "started_wall_us";
type Made = "version" | "genesis_digest";

/** What a writer is told. Version and genesis follow from it; what is left out is null. */
export type NewTraceHeader = Pick<TraceHeader, Given> & Partial<Omit<TraceHeader, Given | Made>>;

const VERSION = 1;

/** The header with what follows from its other members. INVALID_REQUEST for one that no file could have. */
export function completeHeader(given: NewTraceHeader, engine: Engine): TraceHeader {
  const { task_id = null, lease_id = null, fence = null, attempt = null, spec_digest = null } = given;
  const { image = null, level = null, redacted_from_digest = null } = given;
  const { labels_json = null, spec_json = null, replayed_from_digest = null } = given;
  const { replayed_until_call = null, replayed_until_step = null, told_wall_us = null } = given;
  const { trace_id, source, started_wall_us } = given;
  if (trace_id === "") throw new DsecError("INVALID_REQUEST", "a trace must have a trace_id");
  if ((lease_id === null) !== (fence === null)) {
    throw new DsecError("INVALID_REQUEST", `trace ${trace_id} must have both lease_id and fence, or neither`);
  }
  return {
    version: VERSION,
    trace_id,
    source,
    started_wall_us,
    genesis_digest: genesisOf({ trace_id, lease_id, fence }, engine),
    ...{ task_id, lease_id, fence, attempt, spec_digest, image, level, redacted_from_digest },
    ...{ labels_json, spec_json, replayed_from_digest, replayed_until_call, replayed_until_step },
    told_wall_us,
  };
}

/** The payload of the first frame. */
export function encodeHeader(header: TraceHeader, engine: Engine): Uint8Array {
  const message = encodeMessage("FileHeader", header);
  const payload = concatBytes([HEADER_MAGIC, engine.compress(message)]);
  if (Math.max(message.length, payload.length) > LIMITS.traceHeaderBytes) {
    throw new DsecError(
      "INVALID_REQUEST",
      `the header of trace ${header.trace_id} has ${message.length} bytes; at most ${LIMITS.traceHeaderBytes} are kept: shorten its labels`,
    );
  }
  return payload;
}

/** @throws TRACE_CORRUPT, TRACE_UNSUPPORTED */
export function decodeHeader(payload: Uint8Array, place: Place, engine: Engine): TraceHeader {
  if (!startsWith(payload, HEADER_MAGIC)) {
    if (startsWith(payload, HEADER_MAGIC.subarray(0, -1))) {
      const version = String.fromCharCode(payload[HEADER_MAGIC.length - 1] ?? 0x3f);
      throw unsupportedAt(place, `the container is of version ${JSON.stringify(version)}, known here is 1`);
    }
    throw corruptAt(place, "the file header does not begin with DSECTRC1: this is no trace");
  }
  let header: Omit<TraceHeader, "genesis_digest">;
  try {
    const message = engine.decompress(payload.subarray(HEADER_MAGIC.length), LIMITS.traceHeaderBytes);
    header = decodeMessage("FileHeader", message, "file header") as typeof header;
  } catch (cause) {
    throw placed(cause, place);
  }
  if (header.version !== VERSION) {
    throw unsupportedAt(place, `the trace is of version ${header.version}, known here is ${VERSION}`);
  }
  if ((header.lease_id === null) !== (header.fence === null)) {
    throw corruptAt(place, "the file header names half of an attempt");
  }
  return { ...header, genesis_digest: genesisOf(header, engine) };
}

function genesisOf(
  { trace_id, lease_id, fence }: Pick<TraceHeader, "trace_id" | "lease_id" | "fence">,
  engine: Engine,
): Digest {
  const text = genesisText(lease_id !== null && fence !== null ? { lease_id, fence } : { trace_id });
  return digestOf(engine.sha256(new TextEncoder().encode(text)));
}
