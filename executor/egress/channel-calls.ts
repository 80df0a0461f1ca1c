import type { Duplex } from "node:stream";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { CompiledPolicy } from "#core/policy/compile.ts";
import type { Denied } from "#core/policy/decide.ts";
import type { Target } from "#core/policy/url.ts";
import { detailsOf } from "../channel/call-failures.ts";
import type { EventLog } from "../channel/event-log.ts";
import type { OpenCall, OpenTunnel, ProxiedCalls } from "../channel/proxied-calls.ts";
import type { EndMembers, RecordedCalls, StartMembers, ToldEnd } from "../channel/recorded-calls.ts";
import { recordedError } from "../replay/replay.ts";
import type { CallPort, EgressAnswer, EgressCall, EgressWebSocket, Fields } from "./call-port.ts";
import type { CurrentPolicy } from "./current-policy.ts";
import type { ToolRun } from "./egress.ts";
import { Spool, type SpooledBody } from "./spool.ts";

export type ChannelCallParts = {
  calls: Pick<ProxiedCalls, "open" | "openTunnel" | "report">;
  recorded: Pick<RecordedCalls, "begin" | "end" | "recordedEnd">;
  log: Pick<EventLog, "append">;
  policy: CurrentPolicy;
  /** the tool that calls, and in the course of which call; null where the agent's own programs do */
  within: ToolRun | null;
  /** the attempt's private folder */
  directory: string;
};

/**
 * The calls that unmodified programs make through the loopback proxy, made and recorded as those of the socket are: a
 * start event, a signed call with its receipt, an end event, whatever becomes of it.
 */
export class ChannelCalls implements CallPort {
  readonly #parts: ChannelCallParts;
  readonly #spool: Spool;
  readonly #kept: Kept = { leftBytes: LIMITS.recordedProxyBytes };
  /** Settled once the end of a call is recorded. */
  readonly #records = new Set<Promise<void>>();
  #state: "open" | "closed" = "open";

  constructor(parts: ChannelCallParts) {
    this.#parts = parts;
    this.#spool = new Spool(parts.directory);
  }

  policy(): CompiledPolicy {
    return this.#parts.policy.known;
  }

  renewedPolicy(): Promise<CompiledPolicy> {
    return this.#parts.policy.renewed();
  }

  async call(call: EgressCall, signal: AbortSignal): Promise<EgressAnswer> {
    const body = await this.#spool.take(call.body ?? nothing());
    const { method, url, headers } = call;
    const record = await this.#begin({ method, url, arguments_digest: body.digest }, signal, body);
    if (record.kind === "replayed") return record.answer(signal);
    return record.during(async () => {
      const outgoing = {
        call: record.number,
        tool: this.#parts.within?.tool ?? null,
        method,
        url,
        headers,
        body: body.content,
        digest: body.digest,
        timeoutMs: LIMITS.callTimeoutMsMax,
        answer: "verbatim" as const,
      };
      const open = await this.#parts.calls.open(outgoing, signal, (seq) => record.made(seq));
      return { kind: "answer", ...open.head, body: record.follow(open, this.#kept) } as const;
    });
  }

  async openWebSocket(call: EgressCall, signal: AbortSignal): Promise<EgressAnswer | EgressWebSocket> {
    const { method, url, headers } = call;
    const tunnel = await this.#tunnel({ method, url, headers }, "websocket", signal);
    const { status, connection } = tunnel;
    if (status === 101) return { kind: "websocket", headers: tunnel.headers, connection };
    connection.end();
    return { kind: "answer", status, headers: tunnel.headers, body: connection };
  }

  async openTunnel({ url }: Target, signal: AbortSignal): Promise<Duplex> {
    const { connection } = await this.#tunnel({ method: "CONNECT", url, headers: [] }, "opaque", signal);
    return connection;
  }

  refused(denied: Denied): void {
    if (this.#state === "closed") return;
    const { code, message: text, method, target } = denied;
    // Without path and query, which may carry secrets.
    const url = target && `${target.scheme}://${target.host.text}:${target.port}`;
    const call = this.#parts.within?.call ?? null;
    this.#parts.log.append("error", { code, text, via: "proxy", method, url, call });
  }

  /** Resolves once the ends of all calls are recorded; the proxy is closed by then, so nothing new begins. */
  async close(): Promise<void> {
    this.#state = "closed";
    await Promise.all(this.#records);
  }

  async #tunnel(
    call: Pick<EgressCall, "method" | "url" | "headers">,
    passage: "opaque" | "websocket",
    signal: AbortSignal,
  ): Promise<OpenTunnel> {
    const { method, url } = call;
    const record = await this.#begin({ method, url, passage }, null, null);
    if (record.kind === "replayed") throw new Error("a connection that is passed through was replayed");
    return record.during(async () => {
      const timeoutMs = LIMITS.callTimeoutMsMax;
      const tunnel = await this.#parts.calls.openTunnel(
        { ...call, tool: this.#parts.within?.tool ?? null, call: record.number, timeoutMs },
        signal,
        (seq) => record.made(seq),
      );
      tunnel.ended.then(
        ({ bytesUp, bytesDown }) => record.answered({ bytes_up: bytesUp, bytes_down: bytesDown }),
        (error: unknown) => record.failed(error),
      );
      return tunnel;
    });
  }

  async #begin(
    members: Pick<StartMembers, "method" | "url" | "passage" | "arguments_digest">,
    signal: AbortSignal | null,
    body: SpooledBody | null,
  ): Promise<CallRecord | ReplayedCall> {
    const { recorded, calls, within } = this.#parts;
    const { promise: over, resolve } = Promise.withResolvers<void>();
    this.#records.add(over);
    const finish = async (end: () => Promise<unknown>) => {
      await Promise.allSettled([end(), body?.drop()]); // a log that cannot be written says so when it is sealed
      this.#records.delete(over);
      resolve();
    };
    try {
      if (this.#state === "closed") throw new DsecError("CALL_CANCELLED", "the sandbox has ended");
      const { number, before } = await recorded.begin({
        ...{ tool: null, kind: "http", via: "proxy", within: within?.call ?? null },
        ...members,
      });
      const again = before.recorded;
      if (again !== null) {
        return {
          kind: "replayed",
          answer: async (signal) => {
            const ended = recorded.recordedEnd(number, before, again, signal);
            await finish(() => ended);
            return answerAgain(await ended);
          },
        };
      }
      return new CallRecord(
        number,
        calls,
        signal,
        (end) => void finish(() => recorded.end(number, before, end)),
      );
    } catch (error) {
      await finish(async () => {});
      throw error;
    }
  }
}

/** A call that was made before, with the answer that it had. */
type ReplayedCall = { kind: "replayed"; answer(signal: AbortSignal): Promise<EgressAnswer> };

/** @throws what the call failed of */
function answerAgain(end: ToldEnd): EgressAnswer {
  if (end.state !== "answered") throw recordedError(end);
  const { head_json, body } = end.answer!;
  const head = JSON.parse(head_json!) as { status: number; headers: Fields };
  return { kind: "answer", ...head, body: once(body) };
}

/** How much of their answers an attempt's proxied calls may still have kept. */
type Kept = { leftBytes: number };

/** The one end that a call which began has. */
class CallRecord {
  readonly kind = "made";
  /** Of the call in the event log. */
  readonly number: number;
  readonly #calls: Pick<ProxiedCalls, "report">;
  readonly #signal: AbortSignal | null;
  readonly #end: (members: EndMembers) => void;
  readonly #leave = () => this.failed(this.#signal?.reason);
  #state: "open" | "ended" = "open";
  #seq: number | null = null;

  constructor(
    number: number,
    calls: Pick<ProxiedCalls, "report">,
    signal: AbortSignal | null,
    end: (members: EndMembers) => void,
  ) {
    this.number = number;
    this.#calls = calls;
    this.#signal = signal;
    this.#end = end;
    signal?.addEventListener("abort", this.#leave, { once: true });
  }

  made(seq: number): void {
    this.#seq = seq;
  }

  /** Until the answer begins; rejects as the work does. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.failed(error);
      throw error;
    }
  }

  async *follow(open: OpenCall, kept: Kept): AsyncGenerator<Uint8Array> {
    let bytes = 0;
    let parts: Uint8Array[] | null = [];
    try {
      for await (const part of open.body) {
        bytes += part.length;
        if (bytes > Math.min(LIMITS.recordedAnswerBytes, kept.leftBytes)) parts = null;
        parts?.push(part);
        yield part;
      }
      if (parts !== null) kept.leftBytes -= bytes;
      const { status, headers, url, redirects } = open.head;
      const head_json = JSON.stringify({ status, headers, url, redirects });
      const answer = parts === null ? null : { output_json: null, head_json, body: Buffer.concat(parts) };
      this.answered({ output_bytes: bytes, answer });
    } catch (error) {
      this.failed(error);
      throw error;
    } finally {
      this.failed(new DsecError("CALL_CANCELLED", "the client left within the answer"));
    }
  }

  answered(members: Partial<EndMembers>): void {
    this.#finish({ state: "answered", ...members });
  }

  failed(error: unknown): void {
    const known = error instanceof DsecError ? error : null;
    const details_json = detailsOf(error);
    const code = known?.code ?? "INTERNAL";
    const state =
      code === "CALL_CANCELLED" ? "cancelled" : code === "CALL_TIMED_OUT" ? "timed_out" : "failed";
    this.#finish({ state, code, text: known?.message ?? "it failed within this executor", details_json });
  }

  #finish(members: Partial<EndMembers> & Pick<EndMembers, "state">): void {
    if (this.#state === "ended") return;
    this.#state = "ended";
    this.#signal?.removeEventListener("abort", this.#leave);
    const report = this.#seq === null ? null : this.#calls.report(this.#seq);
    const { status = null, fingerprint = null } = report ?? {};
    const fingerprints = { body_digest: fingerprint?.body, json_digest: fingerprint?.json };
    this.#end({ ...members, call_seq: this.#seq, status, ...fingerprints, tries: 1 });
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

async function* once(bytes: Uint8Array | null): AsyncGenerator<Uint8Array> {
  if (bytes !== null) yield bytes;
}
