import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { KeyRing, Signer } from "../ports.ts";

/** A key that signs no more, published until the last token that it signed has expired. */
export type RetiredKey = Pick<Signer, "alg" | "kid" | "publicJwk"> & {
  /** Milliseconds since the epoch. */
  publishedUntilMs: number;
};

/**
 * The keys in force. The next key is published before it signs anything, so that verifiers who cache the JWKS know
 * it on the day it becomes the current one.
 * @param now milliseconds since the epoch
 */
export function createKeyRing(keys: {
  current: Signer;
  next?: Pick<Signer, "alg" | "kid" | "publicJwk"> | null;
  retired?: RetiredKey[];
  now?: () => number;
}): KeyRing {
  const { current, next = null, retired = [], now = Date.now } = keys;
  const kids = [current, ...(next ? [next] : []), ...retired].map((key) => key.kid);
  const twice = kids.find((kid, index) => kids.indexOf(kid) !== index);
  if (twice) {
    throw new DsecError(
      "CONFIG_INVALID",
      `key ring: key ${twice} stands in it twice; a retired key never comes back`,
    );
  }
  return {
    current: () => current,
    jwks: () => ({
      keys: [current, ...(next ? [next] : []), ...retired.filter((key) => now() < key.publishedUntilMs)].map(
        ({ publicJwk, kid, alg }) => ({ ...publicJwk, kid, alg, use: "sig" as const }),
      ),
    }),
  };
}

/** The retired form of a key that signed until now. */
export function retire(
  { alg, kid, publicJwk }: Pick<Signer, "alg" | "kid" | "publicJwk">,
  nowMs: number,
): RetiredKey {
  const publishedUntilMs = nowMs + (LIMITS.attestationTtlS + LIMITS.clockLeewayS) * 1000;
  return { alg, kid, publicJwk, publishedUntilMs };
}
