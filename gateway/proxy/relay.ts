import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { FRAME } from "#core/wire/calls.ts";
import type { Decoding, Upstream, UpstreamAnswer } from "../upstream-port.ts";
import { Fingerprinting } from "./fingerprint.ts";
import { type Answered, discard } from "./follow.ts";
import { type Frame, framed } from "./framing.ts";
import { forwardedResponse, valuesOf } from "./headers.ts";
import type { OpenCall } from "./open-call.ts";

/**
 * The answer as frames, each byte handed on as it comes: counted after decoding, fingerprinted, and searched for
 * secrets. Of a pinned answer nothing is handed on before its fingerprint is known to be the one, and nothing of one
 * whose length is known to be too large.
 * @returns the frames that nothing but the end is to follow: they may as well go out with it
 */
export async function* relay(
  call: OpenCall,
  { answer, hop }: Answered,
  newHash: Upstream["hash"],
): AsyncGenerator<Uint8Array, Frame[]> {
  const { fingerprint: rule } = hop.decision;
  call.answered(answer.status);
  const headers = forwardedResponse(answer.headers, { decoded: answer.decoded });
  const taking = new Fingerprinting(newHash, valuesOf(answer.headers, "content-type")[0], rule?.ignore ?? []);
  let taken: ReturnType<Fingerprinting["finish"]> | undefined;
  call.fingerprint = () => {
    taken ??= taking.finish();
    return taken;
  };
  const { status } = answer;
  const { url, redirects } = call;
  const head: Frame = [FRAME.head, { status, headers, url, redirects }];
  const bound = boundOf(call, rule?.pin !== undefined);
  const length = lengthOf(answer, hop.decision.method);
  if (length !== null && length > bound.bytes) {
    await discard(answer);
    throw tooLarge(call, `its Content-Length is ${length}`, bound);
  }
  const measure = measureOf(call, taking, bound);
  const { decoding } = answer;
  const pieces =
    decoding === null
      ? measured(call, answer.body, measure)
      : keptAsCoded(call, answer.body, decoding, measure);

  if (rule?.pin !== undefined) {
    const held: Uint8Array[] = [];
    for await (const piece of pieces) held.push(piece);
    const { body, json } = await call.fingerprint();
    if ((json ?? body) !== rule.pin) {
      throw new DsecError(
        "FINGERPRINT_MISMATCH",
        `${hop.decision.target.host.text}: the answer has ${json ?? body}, the policy demands ${rule.pin}`,
      );
    }
    yield framed(head);
    for (const piece of held) yield framed([FRAME.data, piece]);
    return [];
  }

  let waiting: Frame[] = [];
  // What is labelled wrongly fails at its first bytes: then there is no head yet that would have to be taken back.
  const isDecoded = answer.decoded || decoding !== null;
  if (isDecoded || answer.hasCome?.()) waiting.push(head);
  else yield framed(head);
  try {
    for await (const piece of pieces) {
      waiting.push([FRAME.data, piece]);
      if (answer.hasCome?.() && waiting.length < WAITING_MAX) continue;
      yield framed(...waiting);
      waiting = [];
    }
  } catch (error) {
    // What came before it broke off is handed on; the head alone only of what needed no decoding.
    if (waiting.length > (isDecoded ? 1 : 0)) yield framed(...waiting);
    throw error;
  }
  return waiting;
}

/** An answer that has come whole is handed on in one piece with its end, unless it is large. */
const WAITING_MAX = 4;

async function* measured(
  call: OpenCall,
  body: AsyncIterable<Uint8Array>,
  measure: Measure,
): AsyncGenerator<Uint8Array, undefined> {
  // Leaving the loop early closes the connection.
  for await (const piece of body) {
    const hashed = measure.decoded(piece);
    if (hashed !== undefined) await hashed;
    const passed = call.sentSecrets.pass(piece);
    if (passed.length > 0) yield passed;
  }
  const last = call.sentSecrets.pass(null);
  call.complete = true;
  if (last.length > 0) yield last;
}

/** A body as it came. Each piece is handed on once it was decoded beside, but for what the decoders still hold. */
async function* keptAsCoded(
  call: OpenCall,
  body: AsyncIterable<Uint8Array>,
  decoding: Decoding,
  measure: Measure,
): AsyncGenerator<Uint8Array, undefined> {
  let state: "measuring" | "measured" = "measuring";
  const stop = new AbortController();
  const measuring = (async () => {
    for await (const piece of decoding.decoded) {
      if (stop.signal.aborted) return;
      await measure.decoded(piece);
    }
    state = "measured";
  })();
  measuring.catch(() => {});
  try {
    for await (const piece of body) {
      measure.coded(piece);
      // What a decoder takes for its end may come before that of the body.
      if (state === "measuring") await Promise.race([decoding.write(piece), measuring]);
      yield piece;
    }
    decoding.end();
    await measuring;
    call.complete = true;
  } catch (error) {
    // The fingerprint is to cover all that came.
    decoding.end();
    await measuring.catch(() => {});
    throw error;
  } finally {
    stop.abort();
    decoding.end();
  }
}

type Bound = { bytes: number; of: string };

function boundOf({ caller }: OpenCall, isPinned: boolean): Bound {
  const bytes = caller.compiled.policy.response_bytes_max;
  return isPinned && bytes > LIMITS.jsonFingerprintBytes
    ? { bytes: LIMITS.jsonFingerprintBytes, of: "an answer whose fingerprint is pinned" }
    : { bytes, of: "the policy's response_bytes_max" };
}

type Measure = { decoded(piece: Uint8Array): void | Promise<void>; coded(piece: Uint8Array): void };

/** Counts a body as it comes and as it decodes, each up to the bound; the greater of both is what was moved. */
function measureOf(call: OpenCall, taking: Fingerprinting, bound: Bound): Measure {
  let moved = 0;
  const counted = (what: string) => {
    let total = 0;
    return (piece: Uint8Array) => {
      total += piece.length;
      if (total > bound.bytes) throw tooLarge(call, what, bound);
      if (total > moved) call.spending.move("bytes_down", total - moved);
      moved = Math.max(moved, total);
    };
  };
  const countDecoded = counted("it goes on after that many bytes, decoded");
  return {
    decoded(piece) {
      countDecoded(piece);
      return taking.update(piece);
    },
    coded: counted("it goes on after that many bytes"),
  };
}

/** What the head says of the body's length. Of several readings none counts. */
function lengthOf({ status, headers }: UpstreamAnswer, method: string): number | null {
  if (method === "HEAD" || status === 204 || status === 304) return null;
  const [value, ...more] = valuesOf(headers, "content-length");
  return value !== undefined && more.length === 0 && /^\d{1,15}$/.test(value) ? Number(value) : null;
}

function tooLarge({ url }: OpenCall, what: string, bound: Bound): DsecError {
  const message = `${new URL(url).host}: the answer is too large: ${what}, and ${bound.of} is ${bound.bytes}`;
  return new DsecError("RESPONSE_TOO_LARGE", message);
}
