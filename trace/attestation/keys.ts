import { DsecError } from "#core/errors.ts";
import type { Json } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { AttestationAlgorithm } from "#core/wire/attestations.ts";
import { decodeBase64url, encodeBase64url } from "./base64url.ts";

/** A public key with the one algorithm that it may be used for. */
export type VerificationKey = {
  readonly alg: AttestationAlgorithm;
  /** RFC 7638 thumbprint */
  readonly thumbprint: string;
  /** Whether this key made the raw JWS signature over the bytes. */
  verify(bytes: Uint8Array, signature: Uint8Array): Promise<boolean> | boolean;
};

export type PublicJwk =
  | { kty: "OKP"; crv: "Ed25519"; x: string }
  | { kty: "EC"; crv: "P-256"; x: string; y: string };

/** Keys by `kid`, and a note for each entry of the set that cannot be used. */
export type KeySet = { keys: ReadonlyMap<string, VerificationKey>; notes: string[] };

/**
 * The usable keys of a JWK set (RFC 7517 section 5). An entry that we cannot use (another key type, a point off the
 * curve, a number) is skipped with a note: one bad entry must not reject the tokens of all others.
 */
export async function readJwks(jwks: unknown): Promise<KeySet> {
  const entries = (jwks as { keys?: unknown } | null)?.keys;
  if (!Array.isArray(entries)) {
    throw new DsecError(
      "ATTESTATION_INVALID",
      "the JWKS is not an object with a list of keys (RFC 7517 section 5)",
    );
  }
  if (entries.length > LIMITS.jwksKeys) {
    throw new DsecError(
      "ATTESTATION_INVALID",
      `the JWKS has ${entries.length} keys; at most ${LIMITS.jwksKeys} are read`,
    );
  }
  const keys = new Map<string, VerificationKey>();
  const ambiguous = new Set<string>();
  const notes: string[] = [];
  for (const [index, entry] of entries.entries()) {
    const kid = (entry as { kid?: unknown } | null)?.kid;
    try {
      if (typeof kid !== "string" || kid === "") throw unusable("it has no kid");
      const key = await importJwk(entry);
      const before = keys.get(kid);
      if (before && before.thumbprint !== key.thumbprint) ambiguous.add(kid);
      keys.set(kid, key);
    } catch (error) {
      const name = typeof kid === "string" ? ` (kid ${JSON.stringify(kid.slice(0, 80))})` : "";
      notes.push(`key ${index}${name} is not usable: ${(error as Error).message}`);
    }
  }
  for (const kid of ambiguous) {
    keys.delete(kid);
    notes.push(`kid ${JSON.stringify(kid.slice(0, 80))} names two different keys: neither is used`);
  }
  return { keys, notes };
}

/** A public JWK as a key for its one algorithm. Refuses what the profile does not name, saying why. */
export async function importJwk(jwk: unknown): Promise<VerificationKey> {
  const { publicJwk, alg } = readJwk(jwk);
  const thumbprint = await jwkThumbprint(publicJwk);
  const name = alg === "EdDSA" ? { name: "Ed25519" } : { name: "ECDSA", namedCurve: "P-256" };
  let key: CryptoKey;
  try {
    key = await crypto.subtle.importKey("jwk", publicJwk, name, false, ["verify"]);
  } catch (cause) {
    throw unusable("it is not a point of its curve", cause);
  }
  const scheme = alg === "EdDSA" ? { name: "Ed25519" } : { name: "ECDSA", hash: "SHA-256" };
  return {
    alg,
    thumbprint,
    async verify(bytes, signature) {
      // both schemes have signatures of 64 bytes; a DER-wrapped ES256 signature is not one of RFC 7518
      if (signature.length !== 64) return false;
      try {
        return await crypto.subtle.verify(scheme, key, signature as BufferSource, bytes as BufferSource);
      } catch {
        return false;
      }
    },
  };
}

/** Judges a public JWK's members before any cryptography: type, curve, sizes, and what it says it is for. */
export function readJwk(jwk: unknown): { publicJwk: PublicJwk; alg: AttestationAlgorithm } {
  if (jwk === null || typeof jwk !== "object" || Array.isArray(jwk)) throw unusable("it is not an object");
  const { kty, crv, x, y, alg, use, key_ops: operations } = jwk as { [member: string]: Json | undefined };
  if ("d" in jwk || "k" in jwk) throw unusable("it holds a secret: only public keys belong in a JWKS");
  if (use !== undefined && use !== "sig") throw unusable(`its use is ${JSON.stringify(use)}, not "sig"`);
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes("verify"))) {
    throw unusable("its key_ops do not hold verify");
  }
  if (kty === "OKP" && crv === "Ed25519") {
    // RFC 9864 names the same scheme Ed25519; our tokens say EdDSA
    if (alg !== undefined && alg !== "EdDSA" && alg !== "Ed25519")
      throw unusable(`its alg is ${JSON.stringify(alg)}`);
    if (!isCoordinate(x)) throw unusable("its x is not 32 bytes in base64url");
    if (isSmallOrder(decodeBase64url(x)!))
      throw unusable("it is a point of small order: anybody can sign for it");
    return { publicJwk: { kty, crv, x }, alg: "EdDSA" };
  }
  if (kty === "EC" && crv === "P-256") {
    if (alg !== undefined && alg !== "ES256") throw unusable(`its alg is ${JSON.stringify(alg)}`);
    if (!isCoordinate(x) || !isCoordinate(y))
      throw unusable("its x and y are not 32 bytes each in base64url");
    return { publicJwk: { kty, crv, x, y }, alg: "ES256" };
  }
  throw unusable(
    `kty ${JSON.stringify(kty) ?? "absent"} with crv ${JSON.stringify(crv) ?? "absent"} is not supported`,
  );
}

/** RFC 7638: the SHA-256 of the key's required members, in base64url. */
export async function jwkThumbprint(jwk: PublicJwk): Promise<string> {
  const bytes = new TextEncoder().encode(thumbprintInput(jwk));
  return encodeBase64url(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}

/** What RFC 7638 hashes: the required members in the order of their names, without white space. */
export function thumbprintInput(jwk: PublicJwk): string {
  return jwk.kty === "OKP"
    ? `{"crv":"${jwk.crv}","kty":"${jwk.kty}","x":"${jwk.x}"}`
    : `{"crv":"${jwk.crv}","kty":"${jwk.kty}","x":"${jwk.x}","y":"${jwk.y}"}`;
}

function isCoordinate(value: Json | undefined): value is string {
  return typeof value === "string" && value.length === 43 && decodeBase64url(value) !== null;
}

/**
 * The y coordinates of the eight points of small order and their unreduced spellings, little-endian without the sign
 * bit. For such a key a signature can be made that fits every message, so it proves nothing.
 */
const SMALL_ORDER = new Set([
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]);

function isSmallOrder(point: Uint8Array): boolean {
  let hex = "";
  for (const [i, byte] of point.entries())
    hex += (i === 31 ? byte & 0x7f : byte).toString(16).padStart(2, "0");
  return SMALL_ORDER.has(hex);
}

function unusable(why: string, cause?: unknown): DsecError {
  return new DsecError("UNKNOWN_SIGNING_KEY", why, { cause });
}
