import { expect, test } from "vitest";
import { issueAttestation } from "#gateway/signing/issue.ts";
import { createKeyRing } from "#gateway/signing/key-ring.ts";
import { generateWebCryptoSigner } from "#gateway/signing/webcrypto-signer.ts";
import { finishedAttempt, ISSUER, NOW_MS, TestExecutor } from "#test/support/attestation.ts";
import { verifyAttestation } from "#trace/attestation/verify.ts";

test.each(["EdDSA", "ES256"] as const)(
  "an attempt's evidence becomes an attestation that verifies (%s)",
  async (alg) => {
    const executor = new TestExecutor();
    const { held, result, evidence, blobSize } = await finishedAttempt(executor);
    const keys = createKeyRing({ current: await generateWebCryptoSigner(alg) });
    const attestation = await issueAttestation({
      keys,
      issuer: ISSUER,
      now: NOW_MS,
      held,
      result,
      evidence: await executor.sendEvidence(evidence),
      blobSize,
    });
    const claims = await verifyAttestation(attestation.jwt, {
      jwks: keys.jwks(),
      issuer: ISSUER,
      now: NOW_MS,
      nonce: "client-nonce-1",
    });
    expect(claims.sub).toBe(held.taskId);
    expect(claims.dsec.result).toEqual(result);
  },
);
