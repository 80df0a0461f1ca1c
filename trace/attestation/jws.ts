import { DsecError, type ErrorCode } from "#core/errors.ts";
import { type Json, parseJson } from "#core/json.ts";
import type { AttestationAlgorithm } from "#core/wire/attestations.ts";
import { decodeBase64url, encodeBase64url } from "./base64url.ts";

/** The whole protected header of every token of ours: what it does not name cannot be asked of a verifier. */
export type JwsHeader = { alg: AttestationAlgorithm; kid: string; typ: string };

/** Signs bytes with one key: the raw JWS signature (RFC 7515 appendix A; R||S for ES256). */
export type Sign = (bytes: Uint8Array) => Uint8Array | Promise<Uint8Array>;

/** A compact JWS taken apart. Nothing in it may be believed before `signature` is verified over `signed`. */
export type CompactJws = {
  header: JwsHeader;
  /** the bytes that the signature covers: the first two parts and the dot between them */
  signed: Uint8Array;
  payload: Uint8Array;
  signature: Uint8Array;
};

const encoder = new TextEncoder();

/** The compact serialisation (RFC 7515 section 7.1) of a payload under a header. */
export function signJws(header: JwsHeader, payload: string, sign: Sign): Promise<string> {
  return signInput(signingInput(header, payload), sign);
}

/** The JWS Signing Input (RFC 7515 section 2): all of the token but its signature. */
export function signingInput(header: JwsHeader, payload: string): string {
  return `${encodedHeader(header)}.${encodeBase64url(encoder.encode(payload))}`;
}

/** The token whose signing input this is. */
export async function signInput(input: string, sign: Sign): Promise<string> {
  return `${input}.${encodeBase64url(await sign(encoder.encode(input)))}`;
}

/**
 * Takes a compact JWS apart, refusing what our profiles do not name: other header members (`crit`, `jwk`, `jku`,
 * `x5c`, `b64`, `zip` …), another `typ`, an algorithm but EdDSA and ES256, and any text that is not the one
 * spelling of its bytes.
 * @param what the object named in errors; @param invalid the code of its refusal
 */
export function readJws(
  text: string,
  profile: { typ: string; maxBytes: number; what: string; invalid: ErrorCode },
): CompactJws {
  const { what, invalid, maxBytes } = profile;
  const refuse = (why: string, cause?: unknown) => new DsecError(invalid, `${what} ${why}`, { cause });

  if (typeof text !== "string") throw refuse("is not text");
  // first of all, so that nothing is decoded or parsed for a text of any size
  if (text.length > maxBytes) throw refuse(`has ${text.length} characters; at most ${maxBytes} are read`);
  const first = text.indexOf(".");
  const second = text.indexOf(".", first + 1);
  if (first < 0 || second < 0 || text.indexOf(".", second + 1) >= 0) {
    throw refuse("is not a compact JWS: it must have three parts with dots between them");
  }
  const header = decodeBase64url(text.slice(0, first));
  const payload = decodeBase64url(text.slice(first + 1, second));
  const signature = decodeBase64url(text.slice(second + 1));
  if (!header || !payload || !signature) throw refuse("is not strict base64url (RFC 7515 section 2)");
  if (header.length > 1024) throw refuse(`has a header of ${header.length} bytes; at most 1024 are read`);

  return {
    header: readHeader(header, profile),
    signed: encoder.encode(text.slice(0, second)),
    payload,
    signature,
  };
}

function readHeader(
  bytes: Uint8Array,
  { typ, what, invalid }: { typ: string; what: string; invalid: ErrorCode },
): JwsHeader {
  const refuse = (why: string, cause?: unknown) => new DsecError(invalid, `${what}: ${why}`, { cause });
  const header = readObject(bytes, `header of ${what}`, invalid);
  const extra = Object.keys(header).filter((name) => name !== "alg" && name !== "kid" && name !== "typ");
  if (extra.length > 0) {
    throw refuse(
      `header member ${JSON.stringify(extra[0]!.slice(0, 40))} is not in the profile (alg, kid, typ)`,
    );
  }
  const { alg, kid } = header;
  if (alg !== "EdDSA" && alg !== "ES256") {
    throw new DsecError(
      "UNSUPPORTED_ALGORITHM",
      `${what}: alg ${shown(alg)} is refused; the profile names EdDSA and ES256 alone`,
    );
  }
  if (header.typ !== typ) throw refuse(`typ is ${shown(header.typ)}, must be "${typ}"`);
  if (typeof kid !== "string" || kid.length === 0 || kid.length > 256) {
    throw refuse(`kid is ${shown(kid)}, must be the id of the signing key`);
  }
  return { alg, kid, typ };
}

/** A JSON object from the bytes of a token, as strictly as every body that comes from outside. */
export function readObject(bytes: Uint8Array, what: string, invalid: ErrorCode): { [member: string]: Json } {
  let value: Json;
  try {
    value = parseJson(bytes, what);
  } catch (cause) {
    throw new DsecError(invalid, (cause as Error).message, { cause });
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new DsecError(invalid, `${what} is not a JSON object`);
  }
  return value;
}

function shown(value: Json | undefined): string {
  return value === undefined ? "absent" : JSON.stringify(value).slice(0, 80);
}

const lastHeaders = new Map<string, { alg: string; kid: string; text: string }>();

/** A signer writes the same header before every token of a type. */
function encodedHeader({ alg, kid, typ }: JwsHeader): string {
  const last = lastHeaders.get(typ);
  if (last?.alg === alg && last.kid === kid) return last.text;
  const text = encodeBase64url(encoder.encode(JSON.stringify({ alg, kid, typ })));
  lastHeaders.set(typ, { alg, kid, text });
  return text;
}
