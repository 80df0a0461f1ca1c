import { DsecError } from "#core/errors.ts";
import { importJwk, jwkThumbprint, type PublicJwk, readJwk } from "#trace/attestation/keys.ts";
import type { Signer } from "../ports.ts";

const SCHEME = {
  EdDSA: { key: { name: "Ed25519" }, signature: { name: "Ed25519" } },
  ES256: { key: { name: "ECDSA", namedCurve: "P-256" }, signature: { name: "ECDSA", hash: "SHA-256" } },
} as const;

/** A new key that lives in this process alone: not even we can read it out. */
export async function generateWebCryptoSigner(alg: Signer["alg"]): Promise<Signer> {
  const pair = (await crypto.subtle.generateKey(SCHEME[alg].key, false, ["sign", "verify"])) as CryptoKeyPair;
  return signerOf(pair.privateKey, await crypto.subtle.exportKey("jwk", pair.publicKey));
}

/**
 * A key from a private JWK, as a Worker gets it from a secret, imported non-extractable. Errors never quote the JWK.
 * @param jwk `{kty: "OKP", crv: "Ed25519", x, d}` or `{kty: "EC", crv: "P-256", x, y, d}`
 */
export async function importWebCryptoSigner(jwk: unknown): Promise<Signer> {
  const { d, ...publicPart } = (jwk ?? {}) as { d?: unknown };
  const { publicJwk, alg } = readSigningJwk(publicPart, d);
  let key: CryptoKey;
  try {
    key = await crypto.subtle.importKey("jwk", { ...publicJwk, d: d as string }, SCHEME[alg].key, false, [
      "sign",
    ]);
  } catch {
    // without the cause: what a JWK library quotes in its messages is not ours to decide
    throw new DsecError(
      "CONFIG_INVALID",
      "signing key: the private JWK does not import; its d and its point disagree",
    );
  }
  const signer = await signerOf(key, publicJwk);
  await proveSigner(signer);
  return signer;
}

async function signerOf(key: CryptoKey, jwk: unknown): Promise<Signer> {
  const { publicJwk, alg } = readJwk(publicMembers(jwk));
  const { signature } = SCHEME[alg];
  return {
    alg,
    publicJwk,
    kid: await jwkThumbprint(publicJwk),
    async sign(bytes) {
      try {
        return new Uint8Array(await crypto.subtle.sign(signature, key, bytes as BufferSource));
      } catch (cause) {
        throw new DsecError("SIGNER_UNAVAILABLE", "signing key: WebCrypto did not sign; see the cause", {
          cause,
        });
      }
    },
  };
}

function readSigningJwk(publicPart: unknown, d: unknown): { publicJwk: PublicJwk; alg: Signer["alg"] } {
  if (typeof d !== "string") {
    throw new DsecError(
      "CONFIG_INVALID",
      "signing key: the JWK has no private member d; make one with dsec gateway",
    );
  }
  try {
    return readJwk(publicMembers(publicPart));
  } catch (cause) {
    throw new DsecError(
      "CONFIG_INVALID",
      `signing key: the private JWK is not usable: ${(cause as Error).message}`,
    );
  }
}

/** `key_ops` and `ext` describe the private key, not the public one made from it. */
function publicMembers(jwk: unknown): unknown {
  const { kty, crv, x, y, alg, use } = (jwk ?? {}) as { [member: string]: unknown };
  return { kty, crv, x, ...(y === undefined ? {} : { y }), ...(alg ? { alg } : {}), ...(use ? { use } : {}) };
}

/** Signs once and verifies with the published key: a ring must never publish a key that does not fit. */
export async function proveSigner(signer: Signer): Promise<void> {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  const key = await importJwk(signer.publicJwk);
  if (!(await key.verify(bytes, await signer.sign(bytes)))) {
    throw new DsecError(
      "CONFIG_INVALID",
      `signing key ${signer.kid}: its private and public parts do not belong together`,
    );
  }
}
