import {
  createHash,
  createPublicKey,
  type Hash,
  hash,
  type JsonWebKeyInput,
  type KeyObject,
  verify,
} from "node:crypto";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { encodeBase64url } from "#trace/attestation/base64url.ts";
import { readJwk, thumbprintInput, type VerificationKey } from "#trace/attestation/keys.ts";
import type { CryptoEngine } from "../ports.ts";

/**
 * node:crypto's one-shot calls work on this thread. WebCrypto hands each 2 KiB to another one and back, which costs
 * more CPU time than the hash itself (bench/attest.ts).
 */
export const nodeCrypto: CryptoEngine = {
  importKey: importNodeKey,
  sha256: (text) => `sha256:${hash("sha256", text, "hex")}`,
};

/** SHA-256 over bytes as they come. Most come in one piece, for which a one-shot call takes half the time of a Hash. */
export class NodeHash {
  #first: Uint8Array = NOTHING;
  #hash: Hash | null = null;

  update(bytes: Uint8Array): void {
    if (this.#hash !== null) this.#hash.update(bytes);
    else if (this.#first.length === 0) this.#first = bytes;
    else this.#hash = createHash("sha256").update(this.#first).update(bytes);
  }

  async digest(): Promise<Digest> {
    return `sha256:${this.#hash?.digest("hex") ?? hash("sha256", this.#first, "hex")}`;
  }
}

const NOTHING: Uint8Array = new Uint8Array(0);

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
