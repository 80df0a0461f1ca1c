/** What a client sent, read within bounds and judged strictly, with errors that say where and what to write instead. */
import type { Context } from "hono";
import type { z } from "zod";
import { joined } from "#core/bytes.ts";
import { DsecError, type ErrorCode } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { faultText, readAs } from "#core/schema-faults.ts";

/** MALFORMED_JSON, UNSUPPORTED_MEDIA_TYPE, BODY_TOO_LARGE, or INVALID_REQUEST with the issues by path. */
export async function readJson<S extends z.ZodType>(
  c: Context,
  schema: S,
  maxBytes: number = LIMITS.requestBodyBytes,
  invalid: ErrorCode = "INVALID_REQUEST",
): Promise<z.output<S>> {
  const type = (c.req.header("content-type") ?? "").toLowerCase();
  if (!/^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/.test(type)) {
    const given = type === "" ? "none" : type.slice(0, 100);
    throw new DsecError("UNSUPPORTED_MEDIA_TYPE", `content-type is ${given}; send application/json (UTF-8)`);
  }
  refuseEncoding(c);
  const value = parseJson(await readBytes(c, maxBytes), "the request body");
  return validate(schema, value, "the request body", invalid);
}

/** The whole body; one whose length is not declared is counted while it arrives. */
export async function readBytes(c: Context, maxBytes: number): Promise<Uint8Array> {
  refuseDeclaredLength(c, maxBytes);
  // HTTP's own framing holds a body to the length that it declares, so there is nothing to count (RFC 9112 section 6.3).
  if (c.req.header("content-length") !== undefined) return new Uint8Array(await c.req.raw.arrayBuffer());
  const parts: Uint8Array[] = [];
  let size = 0;
  // A caller within this process may send a Request whose body was read; that is a body of no bytes.
  for await (const part of bodyStream(c) as AsyncIterable<Uint8Array>) {
    size += part.length;
    // Leaving the loop cancels the stream.
    if (size > maxBytes) throw tooLarge(maxBytes);
    parts.push(part);
  }
  return joined(parts);
}

/** The same of a body that is kept as it is. */
export async function readRawBytes(c: Context, maxBytes: number): Promise<Uint8Array> {
  refuseEncoding(c);
  return readBytes(c, maxBytes);
}

/** The raw body for who stores it while it arrives, and bounds it there; a declared length is refused at once. */
export function rawBody(c: Context, maxBytes: number): ReadableStream<Uint8Array> {
  refuseEncoding(c);
  refuseDeclaredLength(c, maxBytes);
  return bodyStream(c);
}

/**
 * INVALID_REQUEST naming each member that is wrong; a misspelt one comes with the name that was probably meant. Where
 * all that is wrong is a policy, it is POLICY_INVALID, as for a policy that comes alone.
 */
export function validate<S extends z.ZodType>(
  schema: S,
  value: unknown,
  what: string,
  invalid: ErrorCode = "INVALID_REQUEST",
): z.output<S> {
  const read = readAs(schema, value);
  if (read.ok) return read.value;
  const { faults } = read;
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more, see details.issues)` : "";
  const ofPolicy = faults.every(({ path }) => /^policy(?![^.[])/.test(path));
  throw new DsecError(ofPolicy ? "POLICY_INVALID" : invalid, `${what}: ${faultText(faults[0])}${more}`, {
    details: { issues: faults.slice(0, 50) },
  });
}

function bodyStream(c: Context): ReadableStream<Uint8Array> {
  return (c.req.raw.body ?? new Blob([]).stream()) as ReadableStream<Uint8Array>;
}

function refuseEncoding(c: Context): void {
  const encoding = c.req.header("content-encoding");
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw new DsecError(
      "UNSUPPORTED_MEDIA_TYPE",
      `content-encoding ${encoding.slice(0, 40)}: send the body as it is`,
    );
  }
}

function refuseDeclaredLength(c: Context, maxBytes: number): void {
  if (Number(c.req.header("content-length") ?? 0) <= maxBytes) return;
  // Whoever brings the body must not wait for a reader that never comes.
  c.req.raw.body?.cancel().catch(() => {});
  throw tooLarge(maxBytes);
}

function tooLarge(maxBytes: number): DsecError {
  return new DsecError("BODY_TOO_LARGE", `the request body is larger than ${maxBytes} bytes`, {
    details: { max_bytes: maxBytes },
  });
}
