import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { FRAME } from "#core/wire/calls.ts";
import type { Upstream } from "../ports.ts";
import { Fingerprinting } from "./fingerprint.ts";
import type { Answered } from "./follow.ts";
import { type Frame, framed } from "./framing.ts";
import { forwardedResponse, valuesOf } from "./headers.ts";
import type { OpenCall } from "./open-call.ts";

/**
 * The answer as frames, each byte handed on as it comes: counted after decoding, fingerprinted, and searched for
 * secrets. Of a pinned answer nothing is handed on before its fingerprint is known to be the one.
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
  const bytesMax = call.caller.compiled.policy.response_bytes_max;
  const pinned = rule?.pin !== undefined;
  const pieces = measured(
    call,
    answer.body,
    taking,
    pinned ? Math.min(bytesMax, LIMITS.jsonFingerprintBytes) : bytesMax,
  );

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
  if (answer.decoded || answer.hasCome?.()) waiting.push(head);
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
    if (waiting.length > (answer.decoded ? 1 : 0)) yield framed(...waiting);
    throw error;
  }
  return waiting;
}

/** An answer that has come whole is handed on in one piece with its end, unless it is large. */
const WAITING_MAX = 4;

async function* measured(
  call: OpenCall,
  body: AsyncIterable<Uint8Array>,
  taking: Fingerprinting,
  bytesMax: number,
): AsyncGenerator<Uint8Array, undefined> {
  let total = 0;
  // Leaving the loop early closes the connection.
  for await (const piece of body) {
    total += piece.length;
    if (total > bytesMax) throw tooLarge(call, bytesMax);
    call.spending.move("bytes_down", piece.length);
    const hashed = taking.update(piece);
    if (hashed !== undefined) await hashed;
    const passed = call.sentSecrets.pass(piece);
    if (passed.length > 0) yield passed;
  }
  const last = call.sentSecrets.pass(null);
  call.complete = true;
  if (last.length > 0) yield last;
}

function tooLarge({ url }: OpenCall, bytes: number): DsecError {
  return new DsecError(
    "RESPONSE_TOO_LARGE",
    `${new URL(url).host}: the answer has more than ${bytes} bytes after decoding`,
  );
}
