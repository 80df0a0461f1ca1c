import { createHash, createPublicKey, type JsonWebKeyInput, type KeyObject, verify } from "node:crypto";
import { DsecError } from "#core/errors.ts";
import { encodeBase64url } from "#trace/attestation/base64url.ts";
import { readJwk, thumbprintInput, type VerificationKey } from "#trace/attestation/keys.ts";

/**
 * The same key as importJwk makes, over node:crypto: its one-shot call verifies on this thread in half of the CPU time
 * that WebCrypto needs to hand 2 KiB to another one. Refuses the same JWKs with the same words.
 */
export async function importNodeKey(jwk: unknown): Promise<VerificationKey> {
  const { publicJwk, alg } = readJwk(jwk);
  let key: KeyObject;
  try {
    key = createPublicKey({ key: publicJwk, format: "jwk" } as JsonWebKeyInput);
  } catch (cause) {
    throw new DsecError("UNKNOWN_SIGNING_KEY", "it is not a point of its curve", { cause });
  }
  return {
    alg,
    thumbprint: encodeBase64url(createHash("sha256").update(thumbprintInput(publicJwk)).digest()),
    verify(bytes, signature) {
      if (signature.length !== 64) return false;
      return alg === "EdDSA"
        ? verify(null, bytes, key, signature)
        : verify("sha256", bytes, { key, dsaEncoding: "ieee-p1363" }, signature);
    },
  };
}
