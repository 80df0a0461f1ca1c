import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { readAs } from "#core/schema-faults.ts";
import { type AttestationClaims, AttestationClaimsSchema, TYP } from "#core/wire/attestations.ts";
import { type CompactJws, readJws, readObject } from "./jws.ts";
import { type KeySet, readJwks, type VerificationKey } from "./keys.ts";

/** Where a key is found by its `kid`: a JWKS as it was fetched, one already read, or a cache that fetches it. */
export type KeySource = { keys: unknown[] } | KeySet | { find(kid: string): Promise<VerificationKey | null> };

export type VerifyOptions = {
  jwks: KeySource;
  /** The gateway whose word is asked for; null where trust in the keys alone is meant, as with a file of them. */
  issuer: string | null;
  /** The nonce that the client gave the task; where it is given the attestation must repeat it. */
  nonce?: string | undefined;
  /** Milliseconds since the epoch. */
  now: number;
  /** Seconds by which the verifier's clock may differ from the issuer's, at both ends of every window. */
  leewayS?: number | undefined;
};

/**
 * The claims of an attestation that this profile accepts (docs/attestation.md). Everything is refused that the
 * profile does not name, and nothing is fetched for a token whose header is refused already.
 *
 * Codes: ATTESTATION_INVALID, ATTESTATION_EXPIRED, UNKNOWN_SIGNING_KEY, UNSUPPORTED_ALGORITHM.
 */
export async function verifyAttestation(jwt: string, options: VerifyOptions): Promise<AttestationClaims> {
  const token = readAttestation(jwt);
  const { alg, kid } = token.header;
  const key = await findKey(options.jwks, kid);
  // the key decides the algorithm (RFC 8725 section 3.1); the header only has to agree
  if (key.alg !== alg) {
    throw new DsecError(
      "UNSUPPORTED_ALGORITHM",
      `attestation: alg is ${alg}, but key ${kid} is for ${key.alg}`,
    );
  }
  if (!(await key.verify(token.signed, token.signature))) {
    throw invalid(
      `the signature is not of key ${kid}: the attestation was changed, or made by somebody else`,
    );
  }
  const claims = readClaims(token.payload);
  checkTimes(claims, options.now, options.leewayS ?? LIMITS.clockLeewayS);
  if (options.issuer !== null && claims.iss !== options.issuer) {
    throw invalid(`iss is "${claims.iss}", expected "${options.issuer}"`);
  }
  if (options.nonce !== undefined && claims.eat_nonce !== options.nonce) {
    const given = claims.eat_nonce === undefined ? "absent" : JSON.stringify(claims.eat_nonce);
    throw invalid(`eat_nonce is ${given}, expected ${JSON.stringify(options.nonce)}`);
  }
  return claims;
}

/** The attestation taken apart and not yet believed: its header, and the bytes that were signed. */
export function readAttestation(jwt: string): CompactJws {
  return readJws(jwt, {
    typ: TYP.attestation,
    maxBytes: LIMITS.jwtBytes,
    what: "attestation",
    invalid: "ATTESTATION_INVALID",
  });
}

async function findKey(source: KeySource, kid: string): Promise<VerificationKey> {
  if ("find" in source) {
    const key = await source.find(kid);
    if (key) return key;
    throw unknownKey(kid, []);
  }
  const { keys, notes } = Array.isArray(source.keys) ? await readJwks(source) : (source as KeySet);
  const key = keys.get(kid);
  if (!key) throw unknownKey(kid, notes);
  return key;
}

function readClaims(payload: Uint8Array): AttestationClaims {
  const read = readAs(AttestationClaimsSchema, readObject(payload, "attestation", "ATTESTATION_INVALID"));
  if (read.ok) return read.value;
  const [{ path, message }] = read.faults;
  throw invalid(`claim ${path || "set"}: ${message}`, { issues: read.faults.slice(0, 20) });
}

/** RFC 7519 section 4.1: `exp` is the first moment at which it no longer holds, `nbf` the first at which it does. */
function checkTimes({ iat, nbf, exp }: AttestationClaims, nowMs: number, leewayS: number): void {
  if (!(leewayS >= 0) || !Number.isFinite(nowMs)) {
    throw new DsecError(
      "CONFIG_INVALID",
      `now ${nowMs} ms and leeway ${leewayS} s: both must be numbers, leeway ≥ 0`,
    );
  }
  const leewayMs = leewayS * 1000;
  if (nbf >= exp || iat >= exp) throw invalid(`exp ${exp} is not after nbf ${nbf} and iat ${iat}`);
  if (nowMs < nbf * 1000 - leewayMs)
    throw invalid(`not valid before ${utcTime(nbf)}; the time here is ${utcTime(nowMs / 1000)}`);
  if (nowMs < iat * 1000 - leewayMs)
    throw invalid(`issued at ${utcTime(iat)}; the time here is ${utcTime(nowMs / 1000)}`);
  if (nowMs >= exp * 1000 + leewayMs) {
    throw new DsecError(
      "ATTESTATION_EXPIRED",
      `attestation: expired at ${utcTime(exp)}; the time here is ${utcTime(nowMs / 1000)}`,
    );
  }
}

/** RFC 3339 in UTC; claims may name times that no calendar reaches. */
export function utcTime(seconds: number): string {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? `${seconds} s after 1970` : date.toISOString();
}

function invalid(why: string, details?: { issues: unknown[] }): DsecError {
  return new DsecError("ATTESTATION_INVALID", `attestation: ${why}`, details ? { details } : {});
}

function unknownKey(kid: string, notes: string[]): DsecError {
  const skipped = notes.length > 0 ? ` (${notes.join("; ").slice(0, 400)})` : "";
  return new DsecError(
    "UNKNOWN_SIGNING_KEY",
    `attestation: the JWKS has no usable key ${JSON.stringify(kid)}${skipped}`,
  );
}
