/**
 * Answers with a Content-Length that HEAD shows too (RFC 9110 section 9.3.2). Everything goes through Hono's
 * `c.body`, which adds the headers that the first middleware set; a bare `new Response` would lose them.
 */
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { DsecError, errorBody } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import type { BlobStore } from "./ports.ts";

const encoder = new TextEncoder();

export function json(c: Context, value: unknown, status: ContentfulStatusCode = 200): Response {
  return bytes(c, encoder.encode(JSON.stringify(value)), "application/json", status);
}

export function text(
  c: Context,
  value: string,
  contentType: string,
  status: ContentfulStatusCode = 200,
): Response {
  return bytes(c, encoder.encode(value), contentType, status);
}

export function noContent(c: Context): Response {
  return c.body(null, 204);
}

/** What answers any thrown value, with what a client needs to behave: when to retry, how to authenticate. */
export function failureReply(
  error: unknown,
  requestId: string,
): { status: number; headers: Record<string, string>; body: ReturnType<typeof errorBody> } {
  const body = errorBody(error, requestId);
  const status = error instanceof DsecError ? error.status : 500;
  const headers: Record<string, string> = {};
  if (status === 401) headers["WWW-Authenticate"] = 'Bearer realm="dsec"';
  if (status === 429 || status === 503) {
    const afterMs = Number(body.error.details?.retry_after_ms ?? 1000);
    headers["Retry-After"] = String(Math.max(1, Math.ceil(afterMs / 1000)));
  }
  return { status, headers, body };
}

export function failure(c: Context, error: unknown): Response {
  const { status, headers, body } = failureReply(error, c.get("requestId") ?? "unknown");
  for (const [name, value] of Object.entries(headers)) c.header(name, value);
  return json(c, body, status as ContentfulStatusCode);
}

/** SHA-256 of no bytes. Most tasks write nothing to stderr: nobody needs to upload nothing. */
export const EMPTY: Digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/** The size of content that is here, in bytes; null where it is not. */
export async function contentSize(blobs: BlobStore, digest: Digest): Promise<number | null> {
  return digest === EMPTY ? 0 : blobs.size(digest);
}

export type Content = {
  digest: Digest;
  /** In bytes, where a result names it: content that was damaged since must not pass for whole. */
  size: number | null;
  /** The file name that a download gets. */
  name: string;
  /** The refusal when it is not here. */
  missing: () => DsecError;
};

/**
 * Sends content by digest as a download, never as something that a browser would show: it is a stranger's.
 * HEAD opens nothing.
 */
export async function content(c: Context, blobs: BlobStore, what: Content): Promise<Response> {
  const { digest, name } = what;
  const headers = {
    "Content-Type": "application/octet-stream",
    "Content-Disposition": contentDisposition(name),
    // Immutable by construction: the address is the hash of the content.
    ETag: `"${digest}"`,
    "Cache-Control": "private, max-age=31536000, immutable",
    "Repr-Digest": `sha-256=:${base64OfHex(digest.slice("sha256:".length))}:`,
  };
  if (c.req.header("if-none-match") === headers.ETag) return c.body(null, 304, headers);
  if (c.req.method === "HEAD" || digest === EMPTY) {
    const size = await contentSize(blobs, digest);
    if (size === null || size !== (what.size ?? size)) throw what.missing();
    return c.body(null, 200, { ...headers, "Content-Length": String(size) });
  }
  const blob = await blobs.get(digest);
  if (blob !== null && blob.size !== (what.size ?? blob.size)) await blob.body.cancel();
  if (blob === null || blob.size !== (what.size ?? blob.size)) throw what.missing();
  return c.body(blob.body, 200, { ...headers, "Content-Length": String(blob.size) });
}

/**
 * RFC 6266: an ASCII `filename` for old clients and the exact name as `filename*` (RFC 8187). Nothing of the name
 * reaches the header unescaped, so neither a quote nor CR LF can end it.
 */
export function contentDisposition(name: string): string {
  const ascii = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, "_");
  const exact = encodeURIComponent(name.toWellFormed()).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${ascii}"; filename*=UTF-8''${exact}`;
}

function bytes(c: Context, body: Uint8Array, contentType: string, status: ContentfulStatusCode): Response {
  return c.body(body as Uint8Array<ArrayBuffer>, status, {
    "Content-Type": contentType,
    "Content-Length": String(body.length),
  });
}

function base64OfHex(hex: string): string {
  return btoa(String.fromCharCode(...hex.match(/../g)!.map((pair) => Number.parseInt(pair, 16))));
}
