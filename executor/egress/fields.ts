/** Which header fields cross the loopback proxy; values are Latin-1 text and are never re-encoded. */
import type { Fields } from "./call-port.ts";

/** Name and value in turns, as `IncomingMessage.rawHeaders` has them. */
export function fieldsOf(rawHeaders: readonly string[]): Fields {
  const fields: Fields = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) fields.push([rawHeaders[at]!, rawHeaders[at + 1]!]);
  return fields;
}

/** Every value of a field, in order. */
export function valuesOf(fields: Fields, name: string): string[] {
  return fields.filter(([given]) => given.toLowerCase() === name).map(([, value]) => value);
}

/**
 * Without what concerns the client's connection to us: hop-by-hop fields and those that Connection names (RFC 9110
 * section 7.6.1), credentials for a proxy, framing, Host (the URL names it), and Expect, which is answered here.
 */
export function forwardedRequest(fields: Fields): Fields {
  return withoutHop(fields).filter(([name]) => !/^(?:host|content-length|expect)$/i.test(name));
}

/** What of an answer concerns the client; its framing is made anew. */
export function forwardedAnswer(fields: Fields): Fields {
  return withoutHop(fields);
}

const HOP_BY_HOP = /^(?:connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings)$/;

function withoutHop(fields: Fields): Fields {
  const named = new Set(
    valuesOf(fields, "connection").flatMap((value) =>
      value.split(",").map((option) => option.trim().toLowerCase()),
    ),
  );
  return fields.filter(([name]) => {
    const lower = name.toLowerCase();
    return !HOP_BY_HOP.test(lower) && !named.has(lower);
  });
}
