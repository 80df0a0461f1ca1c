import { z } from "zod";
import { DsecError } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import { strict, TimeSchema } from "#core/wire/common.ts";
import { jwkThumbprint, readJwk } from "#trace/attestation/keys.ts";
import type { KeyRing } from "../ports.ts";
import { createKeyRing } from "../signing/key-ring.ts";
import { importWebCryptoSigner } from "../signing/webcrypto-signer.ts";

const Jwk = z.record(z.string(), z.unknown());
const SigningKeysSchema = strict({
  current: Jwk,
  next: Jwk.optional(),
  retired: z.array(strict({ jwk: Jwk, published_until: TimeSchema })).default([]),
});

/**
 * The key ring from a Worker's secret; private keys are imported non-extractable. CONFIG_INVALID names the member
 * that is wrong and never quotes it.
 */
export async function openSigningKeys(secret: string | undefined): Promise<KeyRing> {
  const parsed = SigningKeysSchema.safeParse(secret === undefined ? undefined : readSecret(secret));
  if (!parsed.success) {
    const where = parsed.error.issues[0]?.path.join(".") || "the whole";
    throw new DsecError(
      "CONFIG_INVALID",
      `the secret SIGNING_KEYS is not {"current": JWK, "next"?: JWK, "retired"?: […]}: ${where} is wrong; set it with wrangler secret put SIGNING_KEYS`,
    );
  }
  const { current, next, retired } = parsed.data;
  return createKeyRing({
    current: await importWebCryptoSigner(current),
    next: next === undefined ? null : await publicKeyOf(next),
    retired: await Promise.all(
      retired.map(async ({ jwk, published_until }) => ({
        ...(await publicKeyOf(jwk)),
        publishedUntilMs: Date.parse(published_until),
      })),
    ),
  });
}

function readSecret(secret: string): unknown {
  try {
    return parseJson(secret, "SIGNING_KEYS");
  } catch {
    return undefined;
  }
}

/** The public members alone: a private `d` that stands beside them is dropped. */
async function publicKeyOf(jwk: Record<string, unknown>) {
  const { d: _, key_ops: __, ext: ___, ...members } = jwk;
  const { publicJwk, alg } = readJwk(members);
  return { publicJwk, alg, kid: await jwkThumbprint(publicJwk) };
}
