import { DsecError } from "#core/errors.ts";
import { canonicalJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { faultText, readAs } from "#core/schema-faults.ts";
import { type Evidence, EvidenceSchema, TYP } from "#core/wire/attestations.ts";
import type { PublicKey } from "#core/wire/executors.ts";
import { readJws, readObject, type Sign, signJws } from "./jws.ts";
import { importJwk, type VerificationKey } from "./keys.ts";

/** The evidence of an attempt as its executor sends it: a compact JWS over the RFC 8785 form, `kid` the executor's id. */
export async function signEvidence(evidence: Evidence, sign: Sign): Promise<string> {
  const jws = await signJws(
    { alg: "EdDSA", kid: evidence.executor_id, typ: TYP.evidence },
    canonicalJson(evidence),
    sign,
  );
  if (jws.length > LIMITS.evidenceBytes) {
    const count = evidence.result.outputs.length;
    throw new DsecError(
      "OUTPUT_TOO_LARGE",
      `the evidence of task ${evidence.task_id} has ${jws.length} bytes with ${count} outputs; at most ` +
        `${LIMITS.evidenceBytes} can be attested: put out fewer files, or one archive`,
    );
  }
  return jws;
}

/**
 * The evidence that a key signed, with its members judged one by one. EVIDENCE_INVALID where the token, its
 * signature or its schema fails; the caller compares the content with what it knows.
 */
export async function verifyEvidence(
  jws: string,
  publicKey: PublicKey | VerificationKey,
): Promise<{ evidence: Evidence; kid: string }> {
  const token = readJws(jws, {
    typ: TYP.evidence,
    maxBytes: LIMITS.evidenceBytes,
    what: "evidence",
    invalid: "EVIDENCE_INVALID",
  });
  const key = "verify" in publicKey ? publicKey : await importExecutorKey(publicKey);
  const { alg, kid } = token.header;
  if (alg !== key.alg) {
    throw new DsecError(
      "UNSUPPORTED_ALGORITHM",
      `evidence of ${kid}: alg ${alg}, but the executor's key is for ${key.alg}`,
    );
  }
  if (!(await key.verify(token.signed, token.signature))) {
    throw new DsecError("EVIDENCE_INVALID", `evidence of ${kid}: the executor's key did not sign it`);
  }
  const read = readAs(EvidenceSchema, readObject(token.payload, "evidence", "EVIDENCE_INVALID"));
  if (!read.ok) {
    throw new DsecError("EVIDENCE_INVALID", `evidence of ${kid}: ${faultText(read.faults[0])}`, {
      details: { issues: read.faults.slice(0, 20) },
    });
  }
  return { evidence: read.value, kid };
}

/** The key that an executor enrolled with. EVIDENCE_INVALID where nothing it signs could be believed. */
export async function importExecutorKey(
  publicKey: PublicKey,
  importKey: (jwk: PublicKey) => Promise<VerificationKey> = importJwk,
): Promise<VerificationKey> {
  try {
    return await importKey(publicKey);
  } catch (cause) {
    throw new DsecError("EVIDENCE_INVALID", `the executor's key is not usable: ${(cause as Error).message}`, {
      cause,
    });
  }
}
