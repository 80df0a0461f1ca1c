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

/** Whoever asks more often gets the last answer: a probe needs no key and must not take the signatures of others. */
const CHECK_KEPT_MS = 5_000;
const CHECK_MS_MAX = 5_000;
/** A signature over it is worth nothing: what is signed in earnest has no blanks (RFC 7515, section 5.1). */
const CHECKED_TEXT = new TextEncoder().encode("DSec asks whether its key signs. This is no token.");

/**
 * A check that rejects with SIGNER_UNAVAILABLE where the key in force does not sign, or not within 5 s. It signs, because
 * a key that cannot be reached looks no different until then.
 * @param now milliseconds since the epoch
 */
export function signingCheck(keys: Pick<KeyRing, "current">, now: () => number): () => Promise<void> {
  let checked: Promise<void> | undefined;
  let checkedAtMs = 0;

  async function check(): Promise<void> {
    const signer = keys.current();
    const late = Promise.withResolvers<never>();
    const noSignature = new Error(`no signature for ${CHECK_MS_MAX} ms`);
    const timer = setTimeout(() => late.reject(noSignature), CHECK_MS_MAX);
    try {
      await Promise.race([signer.sign(CHECKED_TEXT), late.promise]);
    } catch (cause) {
      const message = `signing key ${signer.kid} does not sign; the gateway's log has the cause, and it is tried again`;
      throw new DsecError("SIGNER_UNAVAILABLE", message, { cause });
    } finally {
      clearTimeout(timer);
    }
  }

  return () => {
    const elapsedMs = now() - checkedAtMs;
    if (checked === undefined || elapsedMs < 0 || elapsedMs >= CHECK_KEPT_MS) {
      checkedAtMs = now();
      checked = check();
    }
    return checked;
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
