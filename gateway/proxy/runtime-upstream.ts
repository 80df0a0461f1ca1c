import { latin1Of, utf8OfLatin1 } from "#core/bytes.ts";
import { DsecError } from "#core/errors.ts";
import { digestOf } from "#core/json.ts";
import type { Upstream, UpstreamAnswer, UpstreamRequest } from "../upstream-port.ts";

/**
 * Upstream calls over the runtime's own fetch, for Workers. The runtime resolves names and decodes gzip and br by
 * itself, so nothing is pinned; policies that need that refuse their calls here (DNS_NOT_PINNED). Two Set-Cookie
 * fields stay two; other repeated fields come joined by commas.
 */
export function runtimeUpstream(): Upstream {
  return {
    pinned: false,
    resolve() {
      throw new DsecError("INTERNAL", "bug: a runtime that pins nothing is asked for addresses");
    },
    send,
    hash: digestStream,
  };
}

async function send(request: UpstreamRequest): Promise<UpstreamAnswer> {
  const { method, url, body, signal } = request;
  const headers = new Headers();
  for (const [name, value] of request.headers) headers.append(name, textOf(value));
  // Coded bytes would be decoded by the runtime without our count of them; most servers then send none.
  if (request.coding === "ours") headers.set("Accept-Encoding", "identity");
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      headers,
      body: body === null ? null : (fixedLength(body, request.bodyBytes) as BodyInit),
      redirect: "manual",
      signal,
    });
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    throw new DsecError("UPSTREAM_UNREACHABLE", `${new URL(url).host}: no answer came`, { cause });
  }
  const coding = response.headers.get("content-encoding")?.trim().toLowerCase() ?? "";
  return {
    status: response.status,
    headers: [...response.headers].map(([name, value]) => [name, bytesOf(value)]),
    body: response.body === null ? nothing() : told(response.body, url, signal),
    decoded: response.body !== null && RUNTIME_DECODES.has(coding),
    decoding: null,
  };
}

const RUNTIME_DECODES: ReadonlySet<string> = new Set(["gzip", "br"]);

/** Workers send a stream with Content-Length only through one of these. */
function fixedLength(body: Uint8Array | ReadableStream<Uint8Array>, bytes: number): unknown {
  if (body instanceof Uint8Array) return body;
  const { FixedLengthStream } = globalThis as unknown as {
    FixedLengthStream: new (length: number) => TransformStream<Uint8Array, Uint8Array>;
  };
  const through = new FixedLengthStream(bytes);
  body.pipeTo(through.writable).catch(() => {});
  return through.readable;
}

/** The body, whose failures say what failed. */
function told(body: ReadableStream<Uint8Array>, url: string, signal: AbortSignal): AsyncIterable<Uint8Array> {
  const reader = body.getReader();
  const iterator: AsyncIterator<Uint8Array, undefined> = {
    async next() {
      try {
        const { done, value } = await reader.read();
        return done ? { done, value: undefined } : { done, value };
      } catch (cause) {
        if (signal.aborted) throw signal.reason;
        throw new DsecError("UPSTREAM_FAILED", `${new URL(url).host}: the answer broke off`, { cause });
      }
    },
    async return() {
      await reader.cancel();
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** Workers take header values for text, and send and read it as UTF-8: other bytes do not come through. */
function textOf(latin1: string): string {
  return utf8OfLatin1(latin1) ?? latin1;
}

function bytesOf(text: string): string {
  return latin1Of(new TextEncoder().encode(text));
}

/** Workers hash a stream (crypto.DigestStream); WebCrypto itself only whole values. */
function digestStream(): ReturnType<Upstream["hash"]> {
  const { DigestStream } = crypto as unknown as {
    DigestStream: new (name: string) => WritableStream<Uint8Array> & { digest: Promise<ArrayBuffer> };
  };
  const stream = new DigestStream("SHA-256");
  const writer = stream.getWriter();
  return {
    update: (bytes) => writer.write(bytes),
    async digest() {
      await writer.close();
      return digestOf(new Uint8Array(await stream.digest));
    },
  };
}
