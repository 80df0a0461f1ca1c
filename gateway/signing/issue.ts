import { DsecError } from "#core/errors.ts";
import { type AttestationId, type Digest, newId } from "#core/ids.ts";
import { canonicalJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { EndReason, Outcome } from "#core/task.ts";
import {
  type Attestation,
  type AttestationClaims,
  EAT_PROFILE,
  type Evidence,
  TYP,
} from "#core/wire/attestations.ts";
import type { CallsSummary } from "#core/wire/calls.ts";
import type { PublicKey } from "#core/wire/executors.ts";
import type { Result } from "#core/wire/tasks.ts";
import { importExecutorKey, verifyEvidence } from "#trace/attestation/evidence.ts";
import { signJws } from "#trace/attestation/jws.ts";
import type { VerificationKey } from "#trace/attestation/keys.ts";
import type { CryptoEngine, HeldLease, KeyRing } from "../ports.ts";
import { webCrypto } from "./web-crypto.ts";

/** What an executor reports beside its evidence: a result, or how an attempt failed that has none. */
export type Reported = Result | { outcome: Outcome };

export type IssueRequest = {
  keys: KeyRing;
  /** `iss`: the public origin of this gateway. */
  issuer: string;
  /** Milliseconds since the epoch. */
  now: number;
  /** The lease as the store has it, not as the executor says. */
  held: HeldLease;
  result: Reported;
  /** The evidence JWS exactly as it came. */
  evidence: string;
  /** The calls of the attempt as this gateway recorded them. */
  calls: CallsSummary;
  /** Size of what was uploaded under a digest, or null. */
  blobSize(digest: Digest): Promise<number | null>;
  /** One engine for the life of the process: the keys that it imports are kept. */
  crypto?: CryptoEngine | undefined;
};

/**
 * Checks an executor's evidence against everything this gateway knows of the attempt, and signs what held.
 *
 * EVIDENCE_INVALID: the evidence is no evidence (form, signature, schema). EVIDENCE_MISMATCH: it contradicts the
 * lease, the result beside it or what was uploaded; the message names the member and both values.
 * SIGNER_UNAVAILABLE: the signing key cannot be reached.
 */
export async function issueAttestation(request: IssueRequest): Promise<Attestation> {
  const { held, keys, now, crypto = webCrypto } = request;
  const key = await executorKey(held.executorKey, crypto);
  const { evidence, kid } = await verifyEvidence(request.evidence, key);
  match(held, "kid", kid, held.executorId);
  matchLease(evidence, held);
  matchResult(evidence, request.result, held);
  match(held, "calls.count", evidence.calls.count, request.calls.count);
  match(held, "calls.receipts_root", evidence.calls.receipts_root, request.calls.receipts_root);
  await matchUploads(evidence, held, request.blobSize);

  const id = newId("attestation", now) as AttestationId;
  const issuedAtS = Math.floor(now / 1000);
  const signer = keys.current();
  const claims = claimsOf(evidence, {
    iss: request.issuer,
    jti: id,
    iat: issuedAtS,
    jkt: key.thumbprint,
    evidenceDigest: await crypto.sha256(request.evidence),
  });
  const header = { alg: signer.alg, kid: signer.kid, typ: TYP.attestation };
  return {
    id,
    task_id: held.taskId,
    fence: held.fence,
    jwt: await signJws(header, JSON.stringify(claims), (bytes) => signer.sign(bytes)),
    evidence: request.evidence,
    issued_at: new Date(issuedAtS * 1000).toISOString(),
  };
}

/** Ends that a command can come to only inside a sandbox. */
const RAN: readonly EndReason[] = [
  "exited",
  "signaled",
  "oom_killed",
  "disk_full",
  "output_too_large",
  "record_failed",
];

/** The claims that say what the evidence said, now in the gateway's name. */
function claimsOf(
  evidence: Evidence,
  issued: { iss: string; jti: AttestationId; iat: number; jkt: string; evidenceDigest: Digest },
): AttestationClaims {
  const { iss, jti, iat } = issued;
  return {
    iss,
    sub: evidence.task_id,
    jti,
    iat,
    nbf: iat,
    exp: iat + LIMITS.attestationTtlS,
    eat_profile: EAT_PROFILE,
    ...(evidence.nonce === null ? {} : { eat_nonce: evidence.nonce }),
    swname: "dsec-executor",
    swversion: [evidence.build],
    dsec: {
      lease_id: evidence.lease_id,
      fence: evidence.fence,
      attempt: evidence.attempt,
      spec_digest: evidence.spec_digest,
      image: evidence.image,
      executor: { id: evidence.executor_id, jkt: issued.jkt, host: evidence.host },
      resources: evidence.resources,
      isolation: evidence.isolation,
      result: evidence.result,
      calls: evidence.calls,
      trace: evidence.trace,
      durations_us: evidence.durations_us,
      usage: evidence.usage,
      evidence_digest: issued.evidenceDigest,
    },
  };
}

function matchLease(evidence: Evidence, held: HeldLease): void {
  match(held, "lease_id", evidence.lease_id, held.leaseId);
  match(held, "fence", evidence.fence, held.fence);
  match(held, "attempt", evidence.attempt, held.attempt);
  match(held, "task_id", evidence.task_id, held.taskId);
  match(held, "executor_id", evidence.executor_id, held.executorId);
  match(held, "spec_digest", evidence.spec_digest, held.specDigest);
  match(held, "nonce", evidence.nonce, held.spec.nonce);
  match(held, "image.name", evidence.image.name, held.spec.image);
  if (held.spec.image.startsWith("sha256:"))
    match(held, "image.digest", evidence.image.digest, held.spec.image);
  matchValue(held, "resources", evidence.resources, held.spec.resources);
}

function matchResult(evidence: Evidence, result: Reported, held: HeldLease): void {
  const { outcome } = evidence.result;
  if ("outputs" in result) {
    for (const member of ["outcome", "outputs", "stdout", "stderr"] as const) {
      matchValue(held, `result.${member}`, evidence.result[member], result[member]);
    }
  } else {
    // a failed attempt sends no result of its own, so it may not attest one that a command gave
    for (const member of ["reason", "exit_code", "signal"] as const) {
      match(held, `result.outcome.${member}`, outcome[member], result.outcome[member]);
    }
  }
  // a command that ran had a sandbox, and a sandbox has an isolation that can be observed
  if (evidence.isolation === null && RAN.includes(outcome.reason)) {
    throw mismatch(held, "isolation", null, `what was observed, as the command ${outcome.reason}`);
  }
}

async function matchUploads(
  { result, trace }: Evidence,
  held: HeldLease,
  blobSize: IssueRequest["blobSize"],
): Promise<void> {
  const named = [
    ["result.stdout", result.stdout.digest, result.stdout.kept_bytes],
    ["result.stderr", result.stderr.digest, result.stderr.kept_bytes],
    ...(trace === null ? [] : [["trace", trace.digest, trace.size] as const]),
    ...result.outputs.map(({ path, digest, size }) => [`result.outputs ${path}`, digest, size] as const),
  ] as const;
  const sizes = new Map<Digest, Promise<number | null>>();
  for (const [, digest] of named) if (!sizes.has(digest)) sizes.set(digest, blobSize(digest));
  await Promise.all(sizes.values());
  for (const [member, digest, size] of named) {
    const uploaded = await sizes.get(digest)!;
    if (uploaded === null)
      throw mismatch(held, member, digest, "content that was uploaded; there is none of this digest");
    match(held, `${member} size`, size, uploaded);
  }
  for (const name of ["stdout", "stderr"] as const) {
    const { kept_bytes: kept, total_bytes: total } = result[name];
    if (kept > total) throw mismatch(held, `result.${name}.kept_bytes`, kept, `at most total_bytes ${total}`);
  }
}

function match(
  held: HeldLease,
  member: string,
  given: string | number | null,
  expected: string | number | null,
): void {
  if (given !== expected) throw mismatch(held, member, given, expected);
}

/** Compares by RFC 8785 form, so that the order of members does not matter. */
function matchValue(held: HeldLease, member: string, given: unknown, expected: unknown): void {
  // both have mostly been through the same schema, which leaves members in one order: the cheap form then suffices
  if (JSON.stringify(given) === JSON.stringify(expected)) return;
  match(held, member, canonicalJson(given), canonicalJson(expected));
}

function mismatch(
  held: HeldLease,
  member: string,
  given: string | number | null,
  expected: string | number | null,
): DsecError {
  const short = (value: string | number | null) => String(value).slice(0, 300);
  return new DsecError(
    "EVIDENCE_MISMATCH",
    `evidence for lease ${held.leaseId} of task ${held.taskId}: ${member} is ${short(given)}, expected ${short(expected)}`,
    { details: { member, given: short(given), expected: short(expected) } },
  );
}

/** Imported keys of the executors that sent evidence lately: an import costs as much as a verification. */
const executorKeys = new Map<string, Promise<VerificationKey>>();
const EXECUTOR_KEYS_KEPT = 1024;

function executorKey(publicKey: PublicKey, engine: CryptoEngine): Promise<VerificationKey> {
  const known = executorKeys.get(publicKey.x);
  if (known) return known;
  if (executorKeys.size >= EXECUTOR_KEYS_KEPT) executorKeys.delete(executorKeys.keys().next().value!);
  const imported = importExecutorKey(publicKey, engine.importKey);
  executorKeys.set(publicKey.x, imported);
  imported.catch(() => executorKeys.delete(publicKey.x));
  return imported;
}
