/** Content codings of HTTP bodies (RFC 9110 section 8.4), undone. */
import { Duplex, PassThrough, pipeline, Readable, type Transform } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from "node:zlib";
import { DsecError } from "#core/errors.ts";
import { unpackZstd } from "#trace/node/unpack-zstd.ts";

/** What is asked for. A coding that is not asked for is decoded all the same, where it is known. */
export const ACCEPT_ENCODING = "gzip, br, zstd";

/** More codings than these on one body are no transport but an attack (RFC 9110 section 8.4 sets no bound). */
const CODINGS_MAX = 3;

/**
 * The body without its content codings, each piece as soon as it can be had, or null where it is to stay as it is: none,
 * one that is not known, or a part of something (206), which cannot be decoded alone.
 */
export function decodedBody(
  body: AsyncIterable<Uint8Array>,
  status: number,
  contentEncoding: readonly string[],
): Readable | null {
  const decoders = decodersOf(status, contentEncoding);
  if (decoders === null) return null;
  return chained(Readable.from(body, { objectMode: false }), decoders);
}

/**
 * The same for a body that is handed on as it came while it is decoded. Whoever writes is never told of a failure, which
 * `decoded` has, and after a failure waits for ever.
 */
export function decoding(status: number, contentEncoding: readonly string[]) {
  const decoders = decodersOf(status, contentEncoding);
  if (decoders === null) return null;
  const [first, ...rest] = decoders as [Duplex, ...Duplex[]];
  const decoded = chained(first, rest);
  return {
    write: (piece: Uint8Array) =>
      new Promise<void>((resolve) => {
        first.write(piece, (error) => {
          if (error == null) resolve();
        });
      }),
    end: () => void first.end(),
    decoded,
  };
}

/** In the order in which they are undone, or null where the body is to stay as it is. */
function decodersOf(status: number, contentEncoding: readonly string[]): Duplex[] | null {
  const codings = contentEncoding
    .flatMap((value) => value.split(","))
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== "" && coding !== "identity");
  if (codings.length === 0 || codings.length > CODINGS_MAX || status === 206) return null;
  if (codings.some((coding) => !(coding in DECODERS))) return null;
  return codings.reverse().map((coding) => DECODERS[coding as keyof typeof DECODERS]());
}

function chained(source: Readable, decoders: readonly Duplex[]): Readable {
  // An error on either side ends both; who reads the last of them sees it.
  return decoders.reduce((before: Readable, decoder) => pipeline(before, decoder, () => {}), source);
}

const DECODERS = {
  gzip: () => createGunzip(),
  "x-gzip": () => createGunzip(),
  br: () => createBrotliDecompress(),
  // one or more frames (RFC 8878 section 3)
  zstd: () => Duplex.from((source: AsyncIterable<Uint8Array>) => unpackZstd(source, "the body")),
  deflate: () => new Deflate(),
};

/** Whether an error is a decoder's: zlib, Brotli and Zstandard have codes of their own, unlike sockets. */
export function isDecodingError(error: unknown): boolean {
  if (error instanceof DsecError) return error.code === "TRACE_CORRUPT";
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^(Z_|ERR__ERROR|ERR_BROTLI|ERR_PADDING|ZSTD_)/.test(code);
}

/** `deflate` is zlib (RFC 1950), and some servers send it without the wrapper (RFC 9110 section 8.4.1.2). */
class Deflate extends PassThrough {
  #inner: Transform | undefined;

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#inner === undefined) {
      // The low nibble of a zlib header is its method, 8.
      this.#inner = chunk.length > 0 && (chunk[0]! & 0x0f) === 8 ? createInflate() : createInflateRaw();
      this.#inner.on("data", (piece) => this.push(piece));
      this.#inner.once("error", (error) => this.destroy(error));
    }
    this.#inner.write(chunk, () => done());
  }

  override _flush(done: (error?: Error | null) => void): void {
    if (this.#inner === undefined) done();
    else this.#inner.once("end", () => done()).end();
  }
}
