/** Upstream calls on Node: one look-up, and connections to the addresses that were judged and to no other. */
import { lookup } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import { Readable } from "node:stream";
import { buildConnector, type Dispatcher, Pool } from "undici";
import { ByteQueue } from "#core/byte-queue.ts";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { ACCEPT_ENCODING, decodedBody, decoding, isDecodingError } from "#trace/node/decode.ts";
import type { Upstream, UpstreamAnswer, UpstreamRequest } from "../upstream-port.ts";
import { NodeHash } from "./crypto-engine.ts";
import { trustedAuthorities } from "./trust.ts";

/** Every address of a name; rejects where there is none. */
export type Resolve = (name: string) => Promise<string[]>;

export type PinnedUpstream = Upstream & { close(): Promise<void> };

/** Pools that are kept for the next call to the same origin and address. */
const POOLS_MAX = 512;
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * @param resolve the operating system's resolver unless given
 * @param ca certificates that are trusted beside Mozilla's, in PEM
 */
export function pinnedUpstream(options: { resolve?: Resolve; ca?: string | string[] } = {}): PinnedUpstream {
  const { resolve = resolveBySystem } = options;
  const ca = trustedAuthorities(options.ca);
  const pools = new Map<string, Pool>();

  /**
   * Keyed by the address as well as by the origin: a kept connection serves only calls that were judged for the
   * address it goes to, so that nobody's name can borrow a connection that another task's policy opened (B33).
   */
  function poolFor(origin: string, address: string): Pool {
    const key = `${origin} ${address}`;
    const known = pools.get(key);
    if (known !== undefined) {
      pools.delete(key);
      pools.set(key, known);
      return known;
    }
    if (pools.size >= POOLS_MAX) {
      const [oldest, pool] = pools.entries().next().value!;
      pools.delete(oldest);
      pool.close().catch(() => {});
    }
    const connect = pinnedConnector(address, ca);
    const pool = new Pool(origin, {
      connect,
      pipelining: 1,
      // The call has one bound on its time; a stream that is silent for a minute is no fault (B43).
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: LIMITS.callHeaderBytes,
    });
    pools.set(key, pool);
    return pool;
  }

  return {
    pinned: true,
    async resolve(name, signal) {
      try {
        return await whileWanted(resolve(name), signal);
      } catch (cause) {
        if (signal.aborted) throw signal.reason;
        const code = (cause as NodeJS.ErrnoException).code ?? "no answer";
        throw new DsecError("UPSTREAM_UNREACHABLE", `${name}: the name does not resolve (${code})`, {
          cause,
        });
      }
    },
    async send(request) {
      const origin = originOf(request.url);
      for (const [i, address] of request.addresses.entries()) {
        try {
          return await dispatch(poolFor(origin, address), origin, request);
        } catch (error) {
          // Nothing was sent: the next address may be tried.
          const more = i + 1 < request.addresses.length;
          if (!more || !(error instanceof NotConnected) || request.signal.aborted) throw told(error, request);
        }
      }
      throw new DsecError("INTERNAL", "bug: a call without an address");
    },
    hash: () => new NodeHash(),
    async close() {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()));
      pools.clear();
    },
  };
}

/** Of a canonical URL, which has a path after its authority. */
function originOf(url: string): string {
  return url.slice(0, url.indexOf("/", "https://".length));
}

/** The error of a connection that did not come about. */
class NotConnected extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

async function resolveBySystem(name: string): Promise<string[]> {
  // Through the system's resolver and not DNS alone, so that /etc/hosts counts as everywhere on the host.
  return (await lookup(name, { all: true, order: "ipv4first" })).map(({ address }) => address);
}

function pinnedConnector(address: string, ca: string[] | undefined): buildConnector.connector {
  const family = isIP(address);
  // Asked for every host that is no literal, whatever its name; a literal is the address that was judged.
  const pinned: LookupFunction = (_name, options, done) => {
    if (options.all) done(null, [{ address, family }]);
    else done(null, address, family);
  };
  const connect = buildConnector({
    lookup: pinned,
    timeout: CONNECT_TIMEOUT_MS,
    allowH2: false,
    ...(ca === undefined ? {} : { ca }),
  } as buildConnector.BuildOptions);
  return (options, done) =>
    connect(options, (error, socket) =>
      error === null ? done(null, socket) : done(new NotConnected(error), null),
    );
}

function dispatch(pool: Pool, origin: string, request: UpstreamRequest): Promise<UpstreamAnswer> {
  const { method, url, signal, body, bodyBytes, coding } = request;
  const headers = request.headers.flat();
  if (coding === "ours") {
    // Part of a coded body cannot be decoded: whoever asks for a range gets it as it is.
    const ranged = request.headers.some(([name]) => name.toLowerCase() === "range");
    headers.push("accept-encoding", ranged ? "identity" : ACCEPT_ENCODING);
  }
  if (body !== null && !(body instanceof Uint8Array)) headers.push("content-length", String(bodyBytes));

  return new Promise((resolve, reject) => {
    let pieces: ByteQueue | undefined;
    let hasBody = false;
    let stop: (() => void) | undefined;
    const over = () => {
      if (stop) signal.removeEventListener("abort", stop);
    };
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart(controller) {
        stop = () => controller.abort(signal.reason);
        if (signal.aborted) stop();
        else signal.addEventListener("abort", stop, { once: true });
      },
      onResponseStart(controller, status) {
        if (status < 200) return;
        const fields = rawFields(controller.rawHeaders);
        pieces = new ByteQueue({
          pause: () => controller.pause(),
          resume: () => controller.resume(),
          stop() {
            over();
            if (!controller.aborted) controller.abort(new Error("the answer is not wanted"));
          },
        });
        const codings =
          method === "HEAD"
            ? []
            : fields.filter(([name]) => isContentEncoding(name)).map(([, value]) => value);
        const queue = pieces;
        const whole = { status, headers: fields };
        const decoded = coding === "kept" ? null : decodedBody(queue, status, codings);
        if (decoded !== null) {
          resolve({
            ...whole,
            body: toldBody(decoded, request, () => hasBody),
            decoded: true,
            decoding: null,
          });
          return;
        }
        const beside = coding === "kept" ? decoding(status, codings) : null;
        resolve({
          ...{ ...whole, body: queue, hasCome: () => queue.hasCome, decoded: false },
          decoding: beside && { ...beside, decoded: toldBody(beside.decoded, request, () => hasBody) },
        });
      },
      onResponseData(_controller, chunk) {
        hasBody ||= chunk.length > 0;
        pieces?.push(chunk);
      },
      onResponseEnd() {
        over();
        pieces?.end();
      },
      onResponseError(_controller, error) {
        over();
        if (pieces === undefined) reject(error);
        else pieces.fail(told(error, request));
      },
    };
    try {
      pool.dispatch(
        {
          method: method as Dispatcher.HttpMethod,
          // Canonical, so that what follows the origin is path and query.
          path: url.slice(origin.length),
          headers,
          body: body === null || body instanceof Uint8Array ? body : Readable.fromWeb(body as never),
        },
        handler,
      );
    } catch (error) {
      reject(error as Error);
    }
  });
}

function isContentEncoding(name: string): boolean {
  return name.length === "content-encoding".length && name.toLowerCase() === "content-encoding";
}

/** Names and values as the upstream wrote them: one character for each byte (B41). */
function rawFields(raw: Dispatcher.DispatchController["rawHeaders"]): [string, string][] {
  if (!Array.isArray(raw)) return [];
  const texts = raw.map((part) => (typeof part === "string" ? part : part.toString("latin1")));
  return texts.flatMap((name, i): [string, string][] => (i % 2 === 0 ? [[name, texts[i + 1] ?? ""]] : []));
}

/**
 * The decoded body, whose failures say what failed. Of an answer without any, such as a 304, servers name the coding all the
 * same, and no bytes are nothing to a decoder.
 */
function toldBody(
  decoded: Readable,
  request: UpstreamRequest,
  hasBody: () => boolean,
): AsyncIterable<Uint8Array> {
  const pieces = decoded[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
  const iterator: AsyncIterator<Uint8Array, undefined> = {
    next: () =>
      pieces.next().catch((error: unknown) => {
        if (isDecodingError(error) && !hasBody()) return { done: true, value: undefined };
        throw told(error, request);
      }),
    async return() {
      decoded.destroy();
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}

/** What failed, in words that hold nothing of the request: no path, no header. */
function told(error: unknown, { url, signal }: UpstreamRequest): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof DsecError) return error;
  const { host } = new URL(url);
  if (isDecodingError(error)) {
    const message = `${host}: the answer does not decode as its Content-Encoding says`;
    return new DsecError("RESPONSE_UNDECODABLE", message, { cause: error });
  }
  const cause = error instanceof NotConnected ? (error.cause as Error) : (error as Error);
  const code = (cause as NodeJS.ErrnoException)?.code ?? cause?.name;
  return error instanceof NotConnected
    ? new DsecError("UPSTREAM_UNREACHABLE", `${host}: no connection (${code})`, { cause })
    : new DsecError("UPSTREAM_FAILED", `${host}: the exchange broke off (${code})`, { cause });
}

function whileWanted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
