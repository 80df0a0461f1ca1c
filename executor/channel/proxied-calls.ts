import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { merkleRoot } from "#core/merkle.ts";
import {
  type AnswerHead,
  type CallHead,
  type CallsSummary,
  type Fingerprint,
  type Receipt,
  type ReceiptClaims,
  ReceiptClaimsSchema,
} from "#core/wire/calls.ts";
import type { Hold } from "#core/wire/leases.ts";
import { contentDigest } from "../content-digest.ts";
import type { GatewayTunnel } from "../egress/gateway-tunnel.ts";
import { pause, untilAnswered } from "../retry.ts";
import type { CallTimings } from "../trace/call-timings.ts";
import type { Completions } from "../trace/completions.ts";
import type { EventLog } from "./event-log.ts";
import { CallFailure, type ProxiedAnswer, type ProxyTransport, sendCall } from "./proxy-client.ts";

/** The gateway as an attempt's calls need it. */
export type CallGateway = ProxyTransport & {
  receipts(hold: Hold, cursor: string | null, signal: AbortSignal): Promise<ReceiptPage>;
  tunnel(hold: Hold, head: CallHead, signal: AbortSignal): Promise<GatewayTunnel>;
};
type ReceiptPage = { items: Receipt[]; next_cursor: string | null };

export type OutgoingCall = {
  /** its number in the event log, of which this is a try */
  call: number;
  /** the declared tool, or null for a call of the agent's own */
  tool: string | null;
  method: string;
  url: string;
  headers: [name: string, value: string][];
  /** A Blob where it is too large for memory. */
  body: Uint8Array | Blob;
  digest: Digest;
  timeoutMs: number;
  answer: CallHead["answer"];
};

/** A connection that is passed through: opaque TLS by CONNECT, a WebSocket by GET. */
export type TunnelCall = Pick<OutgoingCall, "call" | "tool" | "url" | "headers" | "timeoutMs"> & {
  method: string;
};
export type OpenTunnel = GatewayTunnel & { seq: number };

/** An answer that has begun. `seq` numbers the calls of the attempt. */
export type OpenCall = {
  seq: number;
  head: AnswerHead;
  /** Throws as `sendCall` says where the answer is not whole. */
  body: AsyncIterable<Uint8Array>;
};

/** A call that is being made, for looking at while it is. */
export type RunningCall = { seq: number; tool: string | null; startedAtMs: number; bytesDown: number };

type Running = RunningCall & { call: number };

/** What the gateway said of a call at its end. */
export type CallReport = { status: number | null; fingerprint: Fingerprint | null };

/**
 * The calls that one attempt makes through its gateway. Each takes the next `seq` and carries the event chain's head, so
 * that gateway and log agree on the order; the receipts that come back are kept for the evidence.
 */
export class ProxiedCalls {
  readonly #gateway: CallGateway;
  readonly #hold: Hold;
  readonly #log: Pick<EventLog, "head">;
  readonly #reports = new Map<number, CallReport>();
  readonly #receipts = new Map<number, string>();
  /** Receipts that follow on answers which have been passed on. */
  readonly #following = new Set<Promise<void>>();
  /** Calls of which it is not known what the gateway recorded. */
  readonly #unknown = new Set<number>();
  readonly #running = new Map<number, Running>();
  readonly #completions: Completions;
  readonly #timings: CallTimings;
  #lastSeq = 0;

  constructor(
    gateway: CallGateway,
    hold: Hold,
    parts: { log: Pick<EventLog, "head">; completions: Completions; timings: CallTimings },
  ) {
    this.#gateway = gateway;
    this.#hold = hold;
    this.#log = parts.log;
    this.#completions = parts.completions;
    this.#timings = parts.timings;
  }

  /** @throws the gateway's refusal, CallFailure, GATEWAY_UNREACHABLE, BUDGET_EXHAUSTED past `callsPerAttempt` */
  async open(
    call: OutgoingCall,
    signal: AbortSignal,
    onSeq: (seq: number) => void = () => {},
  ): Promise<OpenCall> {
    const head = this.#begin(call, onSeq);
    const { seq } = head;
    try {
      const answer = await sendCall(this.#gateway, this.#hold, head, call.body, signal);
      return {
        seq,
        head: answer.head,
        body: this.#follow(seq, call, answer),
      };
    } catch (error) {
      // A caller that left does not know what the gateway made of its call.
      this.#ended(seq, signal.aborted ? null : error);
      throw error;
    }
  }

  /** Resolves once the upstream has answered. @throws as `open` does */
  async openTunnel(
    call: TunnelCall,
    signal: AbortSignal,
    onSeq: (seq: number) => void = () => {},
  ): Promise<OpenTunnel> {
    const nothing = { body: NOTHING, digest: contentDigest(NOTHING) };
    const head = this.#begin({ ...call, ...nothing, answer: "verbatim" }, onSeq);
    const { seq } = head;
    try {
      const tunnel = await this.#gateway.tunnel(this.#hold, head, signal);
      const ended = tunnel.ended.then(
        (end) => {
          this.#keep(seq, end.receipt);
          return end;
        },
        (error: unknown) => {
          // It was made, so it has a receipt, whether or not that has come.
          this.#ended(seq, error instanceof CallFailure ? error : null);
          throw error;
        },
      );
      ended.catch(() => {});
      return { ...tunnel, ended, seq };
    } catch (error) {
      this.#ended(seq, signal.aborted ? null : error);
      throw error;
    }
  }

  report(seq: number): CallReport | null {
    return this.#reports.get(seq) ?? null;
  }

  running(): RunningCall[] {
    return [...this.#running.values()];
  }

  /**
   * What the evidence says of the calls. Where answers were lost on their way, the gateway's receipts tell what it
   * recorded; a call that was cut off a moment ago may still be writing its own, and is waited for.
   */
  async summarize(signal: AbortSignal): Promise<CallsSummary> {
    const untilMs = performance.now() + LIMITS.callGraceMs;
    await this.#receiptsFollowed(signal);
    while (this.#unknown.size > 0) {
      await this.#fetchReceipts(signal);
      if (this.#unknown.size === 0 || performance.now() > untilMs) break;
      await pause(100, signal);
    }
    const inOrder = [...this.#receipts].toSorted(([a], [b]) => a - b).map(([, jws]) => Buffer.from(jws));
    return { count: inOrder.length, receipts_root: await merkleRoot(inOrder) };
  }

  #begin(call: OutgoingCall, onSeq: (seq: number) => void): CallHead {
    if (this.#lastSeq >= LIMITS.callsPerAttempt) throw exhausted();
    const seq = ++this.#lastSeq;
    onSeq(seq);
    const { call: number, tool, method, url, headers, body, digest, timeoutMs, answer } = call;
    const sha256 = Buffer.from(digest.slice("sha256:".length), "hex").toString("base64");
    this.#unknown.add(seq);
    this.#running.set(seq, { call: number, seq, tool, startedAtMs: performance.now(), bytesDown: 0 });
    return {
      ...{ seq, tool, method, url, headers },
      content_digest: `sha-256=:${sha256}:`,
      content_length: body instanceof Blob ? body.size : body.length,
      timeout_ms: timeoutMs,
      answer,
      prev: this.#log.head,
      call_signature: null,
    };
  }

  async *#follow(
    seq: number,
    { call, method }: OutgoingCall,
    answer: ProxiedAnswer,
  ): AsyncGenerator<Uint8Array> {
    const running = this.#running.get(seq)!;
    const { status, headers } = answer.head;
    const codings = headers.filter(([name]) => name.toLowerCase() === "content-encoding");
    const tap = this.#completions.follow(
      ...([call, method, status] as const),
      codings.map(([, value]) => value),
    );
    let failure: unknown = null;
    try {
      for await (const part of answer.body) {
        running.bytesDown += part.length;
        try {
          yield part;
        } finally {
          tap?.push(part); // once it has been passed on
        }
      }
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      await tap?.end();
      const end = answer.end();
      if (end !== null) {
        const { fingerprint, duration_us } = end;
        this.#reports.set(seq, { status: answer.head.status, fingerprint });
        this.#time(seq, duration_us);
        this.#running.delete(seq);
        this.#await(seq, answer.receipt());
      }
      // Its answer had begun, so it has a receipt, whether or not that has come.
      else this.#ended(seq, failure instanceof CallFailure ? failure : null);
    }
  }

  async #receiptsFollowed(signal: AbortSignal): Promise<void> {
    if (this.#following.size === 0) return;
    const enough = new AbortController();
    const late = pause(LIMITS.callGraceMs, AbortSignal.any([signal, enough.signal]));
    try {
      await Promise.race([Promise.all(this.#following), late]);
    } finally {
      enough.abort();
    }
  }

  #await(seq: number, receipt: Promise<string | null>): void {
    const followed = receipt.then((jws) => {
      if (jws !== null) {
        this.#receipts.set(seq, jws);
        this.#unknown.delete(seq);
      }
      this.#following.delete(followed);
    });
    this.#following.add(followed);
  }

  #keep(seq: number, receipt: string): void {
    const claims = claimsIn(receipt);
    this.#time(seq, claims?.duration_us ?? null);
    if (claims !== null) this.#reports.set(seq, { status: claims.status, fingerprint: claims.fingerprint });
    this.#receipts.set(seq, receipt);
    this.#unknown.delete(seq);
    this.#running.delete(seq);
  }

  #ended(seq: number, error: unknown): void {
    if (error instanceof CallFailure) {
      if (error.receipt !== null) this.#keep(seq, error.receipt);
    } else if (error instanceof DsecError) {
      this.#time(seq, null);
      // Refused before anything was sent: there is no receipt and there will be none.
      if (error.code !== "GATEWAY_UNREACHABLE") this.#unknown.delete(seq);
    }
    this.#running.delete(seq);
  }

  #time(seq: number, upstreamUs: number | null): void {
    const running = this.#running.get(seq);
    if (running === undefined) return;
    const elapsedUs = (performance.now() - running.startedAtMs) * 1000;
    this.#timings.proxied(running.call, elapsedUs, upstreamUs);
  }

  async #fetchReceipts(signal: AbortSignal): Promise<void> {
    let cursor: string | null = null;
    do {
      const from: string | null = cursor;
      const ask = () => this.#gateway.receipts(this.#hold, from, signal);
      const page: ReceiptPage = await untilAnswered(ask, { signal });
      for (const { seq, receipt } of page.items) this.#keep(seq, receipt);
      cursor = page.next_cursor;
    } while (cursor !== null);
  }
}

const NOTHING = new Uint8Array();

/**
 * Our own gateway's words: they are read here, not verified. Null where they are not as this version knows them; the
 * evidence is over the receipt's bytes and needs none of them.
 */
function claimsIn(receipt: string): ReceiptClaims | null {
  try {
    const text = Buffer.from(receipt.split(".")[1] ?? "", "base64url").toString("utf8");
    return ReceiptClaimsSchema.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}

function exhausted(): DsecError {
  return new DsecError(
    "BUDGET_EXHAUSTED",
    `the attempt has made ${LIMITS.callsPerAttempt} calls and can make no more`,
  );
}
