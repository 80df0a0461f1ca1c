import type { Duplex } from "node:stream";
import type { CompiledPolicy } from "#core/policy/compile.ts";
import type { Denied } from "#core/policy/decide.ts";
import type { Target } from "#core/policy/url.ts";

/**
 * What the loopback proxy asks of its executor, for one sandbox. Whatever is sent goes through the gateway, which judges
 * it again, resolves and connects; nothing here ever does.
 */
export type CallPort = {
  /** The task's policy as it is known here. It can change while the task runs. */
  policy(): CompiledPolicy;
  /** The policy as it is now: asked for before anything is refused. */
  renewedPolicy(): Promise<CompiledPolicy>;
  /** Resolves with the head of the answer, a redirect's included; rejects with the DsecError of a refusal or failure before it. */
  call(call: EgressCall, signal: AbortSignal): Promise<EgressAnswer>;
  /** The opening of a WebSocket (RFC 6455 section 4.1), which the upstream may answer in another way. */
  openWebSocket(call: EgressCall, signal: AbortSignal): Promise<EgressAnswer | EgressWebSocket>;
  /** A connection to the target that is passed through unopened. */
  openTunnel(target: Target, signal: AbortSignal): Promise<Duplex>;
  /** What was refused here and so never reaches the gateway: for the event log. */
  refused(denied: Denied): void;
};

/** Names and values in the order and the spelling in which they came, values as Latin-1 text. */
export type Fields = [name: string, value: string][];

/** One request without what concerns a single connection (RFC 9110 section 7.6.1), Host and Content-Length. */
export type EgressCall = {
  method: string;
  url: string;
  headers: Fields;
  /** Null where the request has none; throws where the client leaves within it. */
  body: AsyncIterable<Uint8Array> | null;
};

export type EgressAnswer = {
  kind: "answer";
  status: number;
  headers: Fields;
  /** As it came, in its content codings. Throws where the answer is not whole; whoever stops reading ends the call. */
  body: AsyncIterable<Uint8Array>;
};

/** The upstream has switched protocols: its 101 and the connection behind it. */
export type EgressWebSocket = { kind: "websocket"; headers: Fields; connection: Duplex };
