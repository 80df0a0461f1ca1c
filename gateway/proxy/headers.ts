import type { CallHead } from "#core/wire/calls.ts";

/** Which header fields cross the proxy. Values are Latin-1 text, one character for each byte, and are never re-encoded. */
type Fields = readonly (readonly [name: string, value: string])[];

/**
 * What the caller's request keeps: hop-by-hop fields and those that Connection names end here (RFC 9110 section
 * 7.6.1), and framing, Host and what the gateway says for itself are set anew. Accept-Encoding is kept of a caller that gets
 * the answer as it came.
 */
export function forwardedRequest(headers: Fields, answer: CallHead["answer"] = "final"): [string, string][] {
  const dropped = connectionOptions(headers);
  return headers
    .filter(([name]) => {
      const lower = name.toLowerCase();
      if (lower === "accept-encoding" && answer === "final") return false;
      return !HOP_BY_HOP.test(lower) && !OURS.test(lower) && !dropped.has(lower);
    })
    .map(([name, value]) => [name, value]);
}

/**
 * What the answer keeps. Where the body was decoded on the way, fields that describe the coded bytes would lie:
 * lengths and digests go, and a strong entity tag becomes a weak one.
 */
export function forwardedResponse(headers: Fields, { decoded }: { decoded: boolean }): [string, string][] {
  const dropped = connectionOptions(headers);
  return headers
    .filter(([name]) => {
      const lower = name.toLowerCase();
      if (HOP_BY_HOP.test(lower) || dropped.has(lower)) return false;
      return !decoded || !OF_CODED_BYTES.test(lower);
    })
    .map(([name, value]) =>
      decoded && name.toLowerCase() === "etag" && value.startsWith('"')
        ? [name, `W/${value}`]
        : [name, value],
    );
}

/** Every value of a field, in order. */
export function valuesOf(headers: Fields, name: string): string[] {
  return headers.filter(([given]) => given.toLowerCase() === name).map(([, value]) => value);
}

/** Sets fields over whatever there is of the same names. */
export function withFields(headers: Fields, fields: Fields): [string, string][] {
  const replaced = new Set(fields.map(([name]) => name.toLowerCase()));
  const kept = headers.filter(([name]) => !replaced.has(name.toLowerCase()));
  return [...kept, ...fields].map(([name, value]) => [name, value]);
}

const HOP_BY_HOP = /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings)$/;

/** Expect among them: the executor has the whole body already, so nobody waits for an interim answer (B40). */
const OURS = /^(host|content-length|expect|content-digest|signature|signature-input|dsec-.*)$/;

const OF_CODED_BYTES =
  /^(content-encoding|content-length|content-digest|repr-digest|digest|content-md5|accept-ranges)$/;

function connectionOptions(headers: Fields): Set<string> {
  return new Set(
    valuesOf(headers, "connection").flatMap((value) =>
      value.split(",").map((option) => option.trim().toLowerCase()),
    ),
  );
}
