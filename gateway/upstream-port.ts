import type { Digest } from "#core/ids.ts";

/** Makes the proxy's requests, one hop each: redirects are answers. */
export type Upstream = {
  /** Whether connections go to the addresses that are given, and nowhere else. */
  readonly pinned: boolean;
  /** Every address of a name, from one look-up. UPSTREAM_UNREACHABLE. Never asked where `pinned` is false. */
  resolve(name: string, signal: AbortSignal): Promise<string[]>;
  /**
   * Sends the request and resolves with the head of its answer. UPSTREAM_UNREACHABLE, UPSTREAM_FAILED, or the
   * signal's reason. The body fails likewise, and with RESPONSE_UNDECODABLE.
   */
  send(request: UpstreamRequest): Promise<UpstreamAnswer>;
  /** SHA-256 over bytes as they come, which nobody changes before its digest. */
  hash(): { update(bytes: Uint8Array): void | Promise<void>; digest(): Promise<Digest> };
};

export type UpstreamRequest = {
  method: string;
  /** Canonical, as it was judged. */
  url: string;
  /** Checked addresses, in order of preference; empty where the runtime resolves by itself. */
  addresses: readonly string[];
  /** All that is to be sent but Host, Content-Length and hop-by-hop fields, and Accept-Encoding where `coding` is `ours`. Latin-1. */
  headers: readonly [name: string, value: string][];
  body: Uint8Array | ReadableStream<Uint8Array> | null;
  bodyBytes: number;
  /**
   * Of the answer's content codings: whether those are asked for that can be undone here (`ours`), or those that `headers` ask
   * for; and whether they are undone, or the body is kept as it came. Some runtimes undo them whatever is said.
   */
  coding: "ours" | "undone" | "kept";
  /** Aborts the call at any moment, with a DsecError for its reason. */
  signal: AbortSignal;
};

export type UpstreamAnswer = {
  status: number;
  /** As they came, Latin-1. */
  headers: [name: string, value: string][];
  /** Without content coding where `decoded`. Read once; whoever stops before its end closes the connection. */
  body: AsyncIterable<Uint8Array>;
  /** Whether all of the body has come, so that its next piece is there at once or was the last. Where it can be told. */
  hasCome?(): boolean;
  decoded: boolean;
  /** Where the body is coded and was kept so: what undoes it beside, for its measure. */
  decoding: Decoding | null;
};

/** Takes a body piece by piece, and gives it without its content codings. */
export type Decoding = {
  /** Resolves once the piece is taken, and never where it cannot be: that is for `decoded` to tell. */
  write(piece: Uint8Array): Promise<void>;
  end(): void;
  /** To be read while it is written. RESPONSE_UNDECODABLE. Whoever stops reading ends the decoding. */
  decoded: AsyncIterable<Uint8Array>;
};
