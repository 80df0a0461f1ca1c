import { createHash, createPublicKey, type JsonWebKeyInput, type KeyObject, verify } from "node:crypto";
import { DsecError } from "#core/errors.ts";
import { digestOf } from "#core/json.ts";
import { encodeBase64url } from "#trace/attestation/base64url.ts";
import { readJwk, thumbprintInput, type VerificationKey } from "#trace/attestation/keys.ts";
import type { CryptoEngine } from "../ports.ts";

/**
 * node:crypto's one-shot calls work on this thread. WebCrypto hands each 2 KiB to another one and back, which costs
 * more CPU time than the hash itself (bench/attest.ts).
 */
export const nodeCrypto: CryptoEngine = {
  importKey: importNodeKey,
  sha256: (text) => digestOf(createHash("sha256").update(text).digest()),
};

/** The same key as importJwk makes, over node:crypto. Refuses the same JWKs with the same words. */
async function importNodeKey(jwk: unknown): Promise<VerificationKey> {
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
