import {
  createHash,
  createPrivateKey,
  createPublicKey,
  type JsonWebKeyInput,
  type KeyObject,
  sign,
} from "node:crypto";
import { DsecError } from "#core/errors.ts";
import { encodeBase64url } from "#trace/attestation/base64url.ts";
import { type PublicJwk, readJwk, thumbprintInput } from "#trace/attestation/keys.ts";
import type { Signer } from "../ports.ts";

/**
 * A signer over a private key in this process's memory, for development and single machines; keys that must not
 * be copied belong in an HSM (pkcs11-signer.ts). node:crypto's one-shot call signs on this thread
 * in about 45 µs.
 * @param privateJwk `{kty, crv, x, [y,] d}` for Ed25519 or P-256; errors never quote it
 */
export function createFileSigner(privateJwk: unknown): Signer {
  const { key, publicJwk, alg } = importPrivateJwk(privateJwk);
  return {
    alg,
    publicJwk,
    kid: encodeBase64url(createHash("sha256").update(thumbprintInput(publicJwk)).digest()),
    async sign(bytes) {
      return alg === "EdDSA"
        ? sign(null, bytes, key)
        : sign("sha256", bytes, { key, dsaEncoding: "ieee-p1363" });
    },
  };
}

function importPrivateJwk(jwk: unknown): { key: KeyObject; publicJwk: PublicJwk; alg: Signer["alg"] } {
  let key: KeyObject;
  let derived: { publicJwk: PublicJwk; alg: Signer["alg"] };
  try {
    key = createPrivateKey({ key: jwk, format: "jwk" } as JsonWebKeyInput);
    derived = readJwk(createPublicKey(key).export({ format: "jwk" }));
  } catch {
    // without the cause: its text may quote the key
    throw new DsecError("CONFIG_INVALID", "the private JWK is not an Ed25519 or P-256 key");
  }
  const { x, y } = jwk as { x?: unknown; y?: unknown };
  const { publicJwk } = derived;
  if (x !== publicJwk.x || (publicJwk.kty === "EC" && y !== publicJwk.y)) {
    throw new DsecError("CONFIG_INVALID", "the private JWK's d and its public point do not belong together");
  }
  return { key, ...derived };
}
