import type { Duplex } from "node:stream";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { CompiledPolicy } from "#core/policy/compile.ts";
import { auditFields, type Denied } from "#core/policy/decide.ts";
import type { Target } from "#core/policy/url.ts";
import type { EventLog } from "../channel/event-log.ts";
import type { OpenCall, OpenTunnel, ProxiedCalls } from "../channel/proxied-calls.ts";
import type { RecordedCalls } from "../channel/recorded-calls.ts";
import type { CallPort, EgressAnswer, EgressCall, EgressWebSocket } from "./call-port.ts";
import type { CurrentPolicy } from "./current-policy.ts";
import { Spool, type SpooledBody } from "./spool.ts";

export type ChannelCallParts = {
  calls: Pick<ProxiedCalls, "open" | "openTunnel" | "report">;
  recorded: Pick<RecordedCalls, "begin" | "end">;
  log: Pick<EventLog, "append">;
  policy: CurrentPolicy;
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
  readonly #records = new Set<Promise<void>>();

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
    const record = await this.#begin({ method, url, body: body.digest }, signal, body);
    return record.during(async () => {
      const outgoing = {
        tool: null,
        method,
        url,
        headers,
        body: body.content,
        timeoutMs: LIMITS.callTimeoutMsMax,
      };
      const open = await this.#parts.calls.open(outgoing, signal, (seq) => record.made(seq));
      return { kind: "answer", ...open.head, body: record.follow(open) } as const;
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
    this.#parts.log.append("error", { via: "proxy", ...auditFields(denied), message: denied.message });
  }

  /** Resolves once the ends of all calls are recorded; the proxy is closed by then, so nothing new begins. */
  async close(): Promise<void> {
    while (this.#records.size > 0) await Promise.all(this.#records);
  }

  async #tunnel(
    call: Pick<EgressCall, "method" | "url" | "headers">,
    passage: "opaque" | "websocket",
    signal: AbortSignal,
  ): Promise<OpenTunnel> {
    const { method, url } = call;
    const record = await this.#begin({ method, url, passage }, null, null);
    return record.during(async () => {
      const timeoutMs = LIMITS.callTimeoutMsMax;
      const tunnel = await this.#parts.calls.openTunnel({ ...call, timeoutMs }, signal, (seq) =>
        record.made(seq),
      );
      tunnel.ended.then(
        ({ bytesUp, bytesDown }) => record.answered({ bytes_up: bytesUp, bytes_down: bytesDown }),
        (error: unknown) => record.failed(error),
      );
      return tunnel;
    });
  }

  async #begin(members: object, signal: AbortSignal | null, body: SpooledBody | null): Promise<CallRecord> {
    const { recorded, calls } = this.#parts;
    try {
      const begun = await recorded.begin({ tool: null, kind: "http", via: "proxy", ...members });
      const record = new CallRecord(calls, signal, (end) => {
        const ended = recorded.end(begun.number, begun.before, end).catch(() => {}); // a log that fails says so when sealed
        const over = Promise.all([ended, body?.drop()]).then(() => void this.#records.delete(over));
        this.#records.add(over);
      });
      return record;
    } catch (error) {
      await body?.drop();
      throw error;
    }
  }
}

/** The one end that a call which began has. */
class CallRecord {
  readonly #calls: Pick<ProxiedCalls, "report">;
  readonly #signal: AbortSignal | null;
  readonly #end: (members: { [member: string]: unknown }) => void;
  readonly #leave = () => this.failed(this.#signal?.reason);
  #state: "open" | "ended" = "open";
  #seq: number | null = null;

  constructor(
    calls: Pick<ProxiedCalls, "report">,
    signal: AbortSignal | null,
    end: (members: { [member: string]: unknown }) => void,
  ) {
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

  async *follow(open: OpenCall): AsyncGenerator<Uint8Array> {
    let bytes = 0;
    try {
      for await (const part of open.body) {
        bytes += part.length;
        yield part;
      }
      this.answered({ output_bytes: bytes });
    } catch (error) {
      this.failed(error);
      throw error;
    } finally {
      this.failed(new DsecError("CALL_CANCELLED", "the client left within the answer"));
    }
  }

  answered(members: { [member: string]: unknown }): void {
    this.#finish({ state: "answered", ...members });
  }

  failed(error: unknown): void {
    const known = error instanceof DsecError ? error : null;
    const code = known?.code ?? "INTERNAL";
    const state =
      code === "CALL_CANCELLED" ? "cancelled" : code === "CALL_TIMED_OUT" ? "timed_out" : "failed";
    this.#finish({ state, code, message: known?.message ?? "it failed within this executor" });
  }

  #finish(members: { [member: string]: unknown }): void {
    if (this.#state === "ended") return;
    this.#state = "ended";
    this.#signal?.removeEventListener("abort", this.#leave);
    const report = this.#seq === null ? null : this.#calls.report(this.#seq);
    const { status = null, fingerprint = null } = report ?? {};
    this.#end({ ...members, seq: this.#seq, status, fingerprint, tries: 1 });
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
