import { DsecError } from "#core/errors.ts";
import type { Allowed } from "#core/policy/decide.ts";
import { decideRedirect } from "#core/policy/redirect.ts";
import { boundUrl, type CallSigning, signatureFields, signCall } from "../signing/call-signature.ts";
import type { Upstream, UpstreamAnswer } from "../upstream-port.ts";
import type { Admission, Hop } from "./admission.ts";
import { type CallBody, EMPTY_DIGEST } from "./call-body.ts";
import { forwardedRequest, valuesOf, withFields } from "./headers.ts";
import type { OpenCall } from "./open-call.ts";

export type Answered = { answer: UpstreamAnswer; hop: Hop };

/**
 * Makes the call and, of a caller that wants the final answer, every call that its redirects lead to. Each hop is judged,
 * resolved, paid for and signed as a call of its own. A redirect that would need a body which is gone is left to the
 * caller, as its answer.
 */
export async function follow(
  call: OpenCall,
  first: Hop,
  body: CallBody,
  { admission, upstream, signing, signal }: Parts,
): Promise<Answered> {
  const { caller, head } = call;
  const hops: [Allowed, ...Allowed[]] = [first.decision];
  let hop = first;
  let { signed } = call;
  const isVerbatim = head.answer === "verbatim";
  let fields = forwardedRequest(head.headers, head.answer);
  let sending: CallBody | null = body;

  for (;;) {
    const { target, method } = hop.decision;
    for (const [, value] of hop.injected) call.sentSecrets.add(value);
    const answer = await upstream.send({
      method,
      url: target.url,
      addresses: hop.addresses,
      headers: withFields(fields, [...hop.injected, ...signed]),
      body: sending?.open((bytes) => call.spending.move("bytes_up", bytes)) ?? null,
      bodyBytes: sending?.bytes ?? 0,
      // An answer that may repeat a secret is read as its reader will read it, and so undone in any case.
      coding: isVerbatim ? (hop.injected.length > 0 ? "undone" : "kept") : "ours",
      signal,
    });
    call.sentSecrets.refuseIn(answer.headers);
    if (isVerbatim) return { answer, hop };
    const locations = valuesOf(answer.headers, "location");
    if (locations.length > 1) throw await refuse(answer, ambiguous(hop));
    const { status } = answer;
    const next = decideRedirect(caller.compiled, hops, { status, location: locations[0] ?? null });
    if (next.kind === "answer") return { answer, hop };
    if (next.kind === "refused") throw await refuse(answer, admission.refusal(caller, next.denied));
    if (next.dropBody) sending = null;
    if (sending !== null && !sending.replayable) return { answer, hop };

    await discard(answer);
    call.redirects.push(target.url);
    call.url = next.decision.target.url;
    hop = await admission.admit(caller, next.decision, signal);
    await call.spending.takeCall(next.decision.target.host.text);
    hops.push(next.decision);
    fields = fields.filter(([name]) => next.survives(name));
    const { iss: _, jti: __, iat: ___, exp: ____, ...bound } = call.signature.claims;
    const by = signing();
    const signature = await signCall(
      {
        ...bound,
        htm: next.decision.method,
        ...(await boundUrl(next.decision.target, by.sha256)),
        content_digest: sending === null ? EMPTY_DIGEST : head.content_digest,
      },
      by,
    );
    signed = await signatureFields(signature, next.decision.target.url, by.keys);
  }
}

type Parts = {
  admission: Admission;
  upstream: Upstream;
  signing: () => CallSigning;
  signal: AbortSignal;
};

async function refuse(answer: UpstreamAnswer, error: DsecError): Promise<DsecError> {
  await discard(answer);
  return error;
}

export async function discard({ body }: UpstreamAnswer): Promise<void> {
  await body[Symbol.asyncIterator]()
    .return?.()
    .catch(() => {});
}

function ambiguous({ decision }: Hop): DsecError {
  return new DsecError(
    "UPSTREAM_FAILED",
    `${decision.target.host.text} answered with more than one Location: nobody can say which is meant`,
  );
}
