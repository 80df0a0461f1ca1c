import { DsecError } from "#core/errors.ts";
import { type Json, parseJson } from "#core/json.ts";

/** A JSON value that has kept its types: `text` is its compact form with every number as it was written. */
export type ExactJson = { text: string; value: Json };

/** `exact` refuses what a double cannot hold; `lenient` keeps long integers, which only some readers can hold. */
export type Strictness = "exact" | "lenient";

/**
 * Reads a JSON value without changing its types. Passing it through JavaScript's numbers would make 1.0 an integer
 * and round 9007199254740993, so numbers stay as they were written. Only space between tokens goes, and strings take
 * their shortest escapes, so that equal values written by different libraries are equal text.
 * @param what the object named in errors, such as `memory value`
 * @throws MALFORMED_JSON as `parseJson` does; MEMORY_VALUE_REFUSED where a reader would silently see another number
 */
export function exactJson(input: Uint8Array | string, what: string, strictness: Strictness): ExactJson {
  const source = typeof input === "string" ? input : DECODER.decode(input);
  // From the bytes, so that what is not UTF-8 is refused and not replaced.
  const value = parseJson(input, what);
  if (!MAY_CHANGE.test(source)) return { text: source, value };
  const text = source.replace(TOKEN, (token) => {
    if (token.startsWith('"')) return token.includes("\\") ? JSON.stringify(JSON.parse(token)) : token;
    if (SPACE.test(token)) return "";
    return exactNumber(token, what, strictness);
  });
  return { text, value };
}

const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });

/** Space, an escape, an exponent or 16 digits in a row: without these a valid text is compact and exact already. */
const MAY_CHANGE = /[\s\\]|\d{16}|\d[eE]/;
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*|[ \t\r\n]+/g;
const SPACE = /^\s/;

function exactNumber(written: string, what: string, strictness: Strictness): string {
  const number = Number(written);
  if (!Number.isFinite(number)) {
    throw refused(what, `${shown(written)} is beyond the largest double; send it as a string`);
  }
  if (strictness === "lenient") return written;
  if (/^-?\d+$/.test(written) && !Number.isSafeInteger(number)) {
    throw refused(what, `the integer ${shown(written)} is beyond 2^53 - 1 (RFC 7493); send it as a string`);
  }
  if (number === 0 && /[1-9]/.test(written.replace(/[eE].*/, ""))) {
    throw refused(what, `${shown(written)} is below the smallest double; send it as a string`);
  }
  return written;
}

function refused(what: string, why: string): DsecError {
  return new DsecError("MEMORY_VALUE_REFUSED", `${what}: ${why}`);
}

function shown(written: string): string {
  return written.length > 40 ? `${written.slice(0, 40)}…` : written;
}
