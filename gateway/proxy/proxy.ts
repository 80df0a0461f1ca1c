/** Tool calls of sandboxes: judged, signed, recorded, made, measured, and answered with a receipt. */
import { DsecError } from "#core/errors.ts";
import type { ExecutorId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Allowed } from "#core/policy/decide.ts";
import { type CallHead, type CallRequest, FRAME } from "#core/wire/calls.ts";
import type { Hold } from "#core/wire/leases.ts";
import type { Metrics } from "../metrics.ts";
import { nextTurn } from "../next-turn.ts";
import type { GatewayPorts, RecordedCall } from "../ports.ts";
import {
  type BoundCall,
  boundUrl,
  type CallSignature,
  type CallSigning,
  checkCallSignature,
  draftCall,
  signatureFields,
  signCall,
} from "../signing/call-signature.ts";
import type { Upstream } from "../upstream-port.ts";
import { Admission, type Caller, type Hop } from "./admission.ts";
import { type CallBody, openCallBody } from "./call-body.ts";
import { follow } from "./follow.ts";
import { ByteReader, framed, readCallHead } from "./framing.ts";
import { forwardedRequest, withFields } from "./headers.ts";
import { OpenCall } from "./open-call.ts";
import { relay } from "./relay.ts";
import { Spending } from "./spending.ts";

/** A connection that is passed through: what must be sent to open it, and the call that measures it. */
export type OpenTunnel = {
  call: OpenCall;
  hop: Hop;
  /** For a WebSocket, the fields of its opening request, without those of the upgrade itself. */
  headers: [string, string][];
  signal: AbortSignal;
  /** Signs and keeps the receipt. */
  end(error: unknown): Promise<{ receipt: string | null; failure: { code: string; message: string } | null }>;
};

export class CallProxy {
  readonly #ports: GatewayPorts & { metrics: Metrics };
  readonly #upstream: Upstream | undefined;
  readonly #admission: Admission | undefined;
  readonly #spending: Spending;

  constructor(ports: GatewayPorts & { metrics: Metrics }) {
    this.#ports = ports;
    this.#upstream = ports.upstream;
    this.#admission = ports.upstream && new Admission(ports, ports.upstream);
    this.#spending = new Spending(ports.store);
  }

  /**
   * One call, its head and its body in one sequence of bytes; the answer is a sequence of frames. Rejects where the call
   * is refused before anything was sent. What fails afterwards is told by the last frame, with a receipt.
   * Who leaves cancels `bounds`, which closes the connection to the upstream, and reads to the end all the same: it is
   * reading that brings a call to its receipt.
   */
  async call(
    executorId: ExecutorId,
    hold: Hold,
    bytes: AsyncIterator<Uint8Array>,
    bounds: CallBounds,
  ): Promise<AsyncGenerator<Uint8Array, undefined>> {
    const { upstream, admission } = this.#parts();
    const reader = new ByteReader(bytes);
    try {
      const head = await readCallHead(reader);
      refuseConnect(head);
      const caller = await admission.caller(executorId, hold);
      bounds.start(Math.min(head.timeout_ms, caller.compiled.policy.timeout_ms_max), head.seq);
      const decision = admission.decide(caller, head);
      const hop = await admission.admit(caller, decision, bounds.signal);
      const body = await openCallBody(reader, head, upstream.hash);
      const call = await this.#open(caller, head, hop, bounds.timeoutMs);
      return this.#perform(call, hop, body, bounds);
    } catch (error) {
      bounds.end();
      reader.cancel();
      this.#count(error);
      throw error;
    }
  }

  /** The signature of a call that is made later, with the same members and that signature in its head. */
  async issue(executorId: ExecutorId, request: CallRequest): Promise<CallSignature> {
    const { admission } = this.#parts();
    const { lease_id, fence, ...bound } = request;
    const hold = { lease_id, fence };
    const caller = await admission.caller(executorId, hold);
    const decision = admission.decide(caller, request);
    const by = this.#signing();
    const signature = await signCall(await boundCall(caller, bound, decision, by), by);
    const deadlineInMs = LIMITS.callSignatureTtlS * 1000;
    const { digest } = signature;
    await this.#ports.store.recordCall(
      executorId,
      hold,
      { seq: request.seq, digest, deadlineInMs },
      "issued",
    );
    return signature;
  }

  /** A CONNECT or the opening of a WebSocket, judged, signed and recorded; whoever asks makes the connection. */
  async tunnel(
    executorId: ExecutorId,
    hold: Hold,
    head: CallHead,
    leaving: AbortSignal,
  ): Promise<OpenTunnel> {
    const { admission } = this.#parts();
    const bounds = new CallBounds();
    bounds.cancelWith(leaving);
    try {
      const caller = await admission.caller(executorId, hold);
      bounds.start(Math.min(head.timeout_ms, caller.compiled.policy.timeout_ms_max), head.seq);
      const decision = admission.decide(caller, head);
      if (decision.passage === "opened") {
        throw new DsecError(
          "REQUEST_TARGET_INVALID",
          `${decision.target.host.text}: the policy does not pass this host through; open its TLS and send the requests`,
        );
      }
      if (decision.passage === "direct" && decision.method !== "GET") {
        const message = `call ${head.seq}: a tunnel takes CONNECT, or GET for a WebSocket, not ${decision.method}`;
        throw new DsecError("REQUEST_TARGET_INVALID", message);
      }
      const hop = await admission.admit(caller, decision, bounds.signal);
      const call = await this.#open(caller, head, hop, bounds.timeoutMs);
      for (const [, value] of hop.injected) call.sentSecrets.add(value);
      return {
        call,
        hop,
        headers: withFields(forwardedRequest(head.headers), [...hop.injected, ...call.signed]),
        signal: bounds.signal,
        end: async (error) => {
          const failure = error === null ? null : call.failureOf(error);
          this.#count(error);
          bounds.end();
          return { receipt: await this.#receipt(call, failure), failure };
        },
      };
    } catch (error) {
      bounds.end();
      this.#count(error);
      throw error;
    }
  }

  /** Pays for the call, takes its seq and signs it (or checks that): from here on it has a receipt, whatever happens. */
  async #open(caller: Caller, head: CallHead, hop: Hop, timeoutMs: number): Promise<OpenCall> {
    const { executorId, hold, taskId, compiled } = caller;
    const { seq, call_signature: given } = head;
    const by = this.#signing();
    const bound = await boundCall(caller, head, hop.decision, by);
    const issued = given === null ? null : await checkCallSignature(given, bound, by);
    const { digest, sign } =
      issued === null ? await draftCall(bound, by) : { ...issued, sign: async () => issued };
    const { passage, target } = hop.decision;
    const spending = this.#spending.open(taskId, compiled.policy.budgets);
    const { store, keys } = this.#ports;
    try {
      await spending.takeCall(target.host.text);
      const record = { seq, digest, deadlineInMs: timeoutMs + LIMITS.callGraceMs };
      const taking =
        issued === null
          ? store.recordCall(executorId, hold, record, "made")
          : store.useCall(executorId, hold, record);
      const signing = underway(async () => {
        const signature = await sign();
        const signed = passage === "opaque" ? [] : await signatureFields(signature, target.url, keys);
        return { signature, signed };
      });
      const [taken, made] = await Promise.allSettled([taking, signing]);
      if (taken.status === "rejected") throw taken.reason;
      if (made.status === "rejected") {
        await this.#withdraw(caller, record);
        throw made.reason;
      }
      const pinned = this.#upstream!.pinned;
      return new OpenCall({ caller, head, hop, ...made.value, spending, pinned }, this.#ports);
    } catch (error) {
      spending.close();
      throw error;
    }
  }

  /** A call that cannot be signed is not sent. Where its record cannot be taken back, it stays open until its deadline. */
  async #withdraw({ taskId, hold }: Caller, call: Pick<RecordedCall, "seq" | "digest">): Promise<void> {
    try {
      await this.#ports.store.withdrawCall(taskId, hold.fence, call);
    } catch (error) {
      const message = "a call that was not sent stays open";
      const { lease_id } = hold;
      this.#ports.log({ level: "error", message, lease_id, seq: call.seq, error: String(error) });
    }
  }

  async *#perform(
    call: OpenCall,
    hop: Hop,
    body: CallBody,
    bounds: CallBounds,
  ): AsyncGenerator<Uint8Array, undefined> {
    const { upstream, admission } = this.#parts();
    const call_signature = call.signature.jws;
    try {
      const parts = { admission, upstream, signing: () => this.#signing(), signal: bounds.signal };
      const answered = await follow(call, hop, body, parts);
      const rest = yield* relay(call, answered, upstream.hash);
      yield framed(...rest, [FRAME.end, await call.end()]);
      this.#count(null);
      // The agent goes on with its answer while the receipt is signed and kept.
      await new Promise<void>(nextTurn);
      const receipt = await this.#receipt(call, null);
      if (receipt !== null) yield framed([FRAME.receipt, { call_signature, receipt }]);
    } catch (error) {
      const failure = call.failureOf(bounds.reason() ?? error);
      this.#count(error);
      if (failure.code === "INTERNAL") this.#log(call, error);
      const receipt = await this.#receipt(call, failure);
      const partial = call.status !== null && !call.complete;
      yield framed([FRAME.error, { ...failure, partial, call_signature, receipt }]);
    } finally {
      bounds.end();
      call.spending.close();
    }
  }

  /** Null where it cannot be signed or kept: the call then stays open in the record until its deadline. */
  async #receipt(call: OpenCall, failure: { code: DsecError["code"]; message: string } | null) {
    try {
      return await call.finish(failure);
    } catch (error) {
      this.#log(call, error);
      return null;
    }
  }

  #parts(): { upstream: Upstream; admission: Admission } {
    if (this.#upstream !== undefined && this.#admission !== undefined) {
      return { upstream: this.#upstream, admission: this.#admission };
    }
    throw new DsecError("PROXY_UNAVAILABLE", "this gateway makes no calls; send them to one that does");
  }

  #signing(): CallSigning {
    const { keys, config, now, crypto } = this.#ports;
    return { keys, issuer: config.issuer, nowMs: now(), sha256: crypto?.sha256 };
  }

  #count(error: unknown): void {
    const code = error === null ? "OK" : error instanceof DsecError ? error.code : "INTERNAL";
    this.#ports.metrics.count("dsec_calls_total", "Tool calls by what came of them.", { code });
  }

  #log(call: OpenCall, error: unknown): void {
    this.#ports.log({
      level: "error",
      message: "a call failed unexpectedly",
      lease_id: call.caller.hold.lease_id,
      seq: call.head.seq,
      error: call.sentSecrets.scrub(error instanceof Error ? (error.stack ?? error.message) : String(error)),
    });
  }
}

/** Work for this thread while the database does its own: a statement leaves in the second turn (coalesce, postgres.js). */
async function underway<T>(work: () => Promise<T>): Promise<T> {
  await new Promise<void>((resolve) => nextTurn(() => nextTurn(resolve)));
  return work();
}

async function boundCall(
  { hold, policyDigest }: Caller,
  { seq, tool, content_digest, prev }: Pick<CallHead, "seq" | "tool" | "content_digest" | "prev">,
  { method, target }: Allowed,
  { sha256 }: CallSigning,
): Promise<BoundCall> {
  const url = await boundUrl(target, sha256);
  return {
    sub: hold.lease_id,
    fence: hold.fence,
    seq,
    tool,
    htm: method,
    ...url,
    content_digest,
    policy_digest: policyDigest,
    prev,
  };
}

function refuseConnect({ method, seq }: CallHead): void {
  if (method !== "CONNECT") return;
  throw new DsecError("REQUEST_TARGET_INVALID", `call ${seq}: CONNECT is made through the lease's tunnel`);
}

/** What ends a call from outside: its time, and the caller's leaving. */
export class CallBounds {
  readonly #abort = new AbortController();
  readonly #leave = () => this.cancel();
  #leaving: AbortSignal | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  timeoutMs = 0;

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** For a caller whose leaving is a signal. */
  cancelWith(leaving: AbortSignal): void {
    this.#leaving = leaving;
    if (leaving.aborted) this.cancel();
    else leaving.addEventListener("abort", this.#leave, { once: true });
  }

  start(timeoutMs: number, seq: number): void {
    this.timeoutMs = timeoutMs;
    this.#timer = setTimeout(() => {
      const message = `call ${seq}: it was not over after ${timeoutMs} ms`;
      this.#abort.abort(new DsecError("CALL_TIMED_OUT", message));
    }, timeoutMs);
  }

  cancel(): void {
    this.#abort.abort(new DsecError("CALL_CANCELLED", "the caller left before the answer was complete"));
  }

  /** Why the call was ended from outside, where it was. */
  reason(): unknown {
    return this.signal.aborted ? this.signal.reason : undefined;
  }

  end(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#leaving?.removeEventListener("abort", this.#leave);
  }
}
