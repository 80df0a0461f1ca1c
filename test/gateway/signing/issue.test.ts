import { expect, test } from "vitest";
import { newId } from "#core/ids.ts";
import { jsonDigest, sha256 } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { END_REASONS } from "#core/task.ts";
import { type Evidence, TYP } from "#core/wire/attestations.ts";
import { nodeCrypto } from "#gateway/node/crypto-engine.ts";
import type { CryptoEngine, HeldLease, Signer } from "#gateway/ports.ts";
import { issueAttestation, type Reported } from "#gateway/signing/issue.ts";
import { createKeyRing } from "#gateway/signing/key-ring.ts";
import { generateWebCryptoSigner } from "#gateway/signing/webcrypto-signer.ts";
import { finishedAttempt, forgeJws, ISSUER, NOW_MS, TestExecutor } from "#test/support/attestation.ts";
import { jwkThumbprint } from "#trace/attestation/keys.ts";
import { verifyAttestation } from "#trace/attestation/verify.ts";

const executor = new TestExecutor();
const attempt = await finishedAttempt(executor, 2);
const signer = await generateWebCryptoSigner("EdDSA");
const keys = createKeyRing({ current: signer });

/** What is reported of an attempt that a fault of the system ended. */
const FAILED: Reported = {
  outcome: { reason: "launch_failed", exit_code: null, signal: null, message: "no such image" },
};

/** Issues for the finished attempt with something changed on one side. */
async function issue(changes: {
  evidence?: (evidence: Evidence) => void;
  jws?: string;
  held?: Partial<HeldLease>;
  result?: Reported;
  blobSize?: (digest: string) => Promise<number | null>;
  by?: Signer;
  crypto?: CryptoEngine | undefined;
}) {
  const evidence = structuredClone(attempt.evidence);
  changes.evidence?.(evidence);
  return issueAttestation({
    keys: changes.by ? createKeyRing({ current: changes.by }) : keys,
    issuer: ISSUER,
    now: NOW_MS + 999,
    held: { ...attempt.held, ...changes.held },
    result: changes.result ?? attempt.result,
    calls: attempt.calls,
    evidence: changes.jws ?? (await executor.sendEvidence(evidence)),
    blobSize: changes.blobSize ?? attempt.blobSize,
    crypto: changes.crypto,
  });
}

test.each(["EdDSA", "ES256"] as const)(
  "evidence that agrees with everything becomes an attestation of it (%s)",
  async (alg) => {
    const by = await generateWebCryptoSigner(alg);
    const attestation = await issue({ by });
    const claims = await verifyAttestation(attestation.jwt, {
      jwks: createKeyRing({ current: by }).jwks(),
      issuer: ISSUER,
      now: NOW_MS,
      nonce: "client-nonce-1",
    });
    const { evidence } = attempt;
    expect(claims).toEqual({
      iss: ISSUER,
      sub: evidence.task_id,
      jti: attestation.id,
      iat: NOW_MS / 1000,
      nbf: NOW_MS / 1000,
      exp: NOW_MS / 1000 + LIMITS.attestationTtlS,
      eat_profile: "urn:dsec:eat-profile:attestation:1",
      eat_nonce: "client-nonce-1",
      swname: "dsec-executor",
      swversion: [evidence.build],
      dsec: {
        lease_id: evidence.lease_id,
        fence: 3,
        attempt: 2,
        spec_digest: await jsonDigest(attempt.held.spec),
        image: evidence.image,
        executor: { id: executor.id, jkt: await jwkThumbprint(executor.publicKey), host: evidence.host },
        resources: evidence.resources,
        isolation: evidence.isolation,
        result: attempt.result,
        trace: evidence.trace,
        calls: attempt.calls,
        durations_us: evidence.durations_us,
        usage: evidence.usage,
        evidence_digest: await sha256(attestation.evidence),
      },
    });
    expect(attestation).toMatchObject({
      task_id: evidence.task_id,
      fence: 3,
      issued_at: new Date(NOW_MS).toISOString(),
    });
  },
);

test("Node's own crypto and WebCrypto judge and attest alike", async () => {
  const thief = new TestExecutor();
  const forged = await forgeJws(
    { alg: "EdDSA", kid: executor.id, typ: TYP.evidence },
    attempt.evidence,
    thief.sign,
  );
  for (const crypto of [nodeCrypto, undefined]) {
    // a key of its own, so that this engine and not an earlier test's imports it
    const fresh = new TestExecutor();
    const held = { ...attempt.held, executorId: fresh.id, executorKey: fresh.publicKey };
    const jws = await fresh.sendEvidence({ ...attempt.evidence, executor_id: fresh.id });
    const { jwt } = await issue({ jws, held, crypto });
    const claims = await verifyAttestation(jwt, { jwks: keys.jwks(), issuer: ISSUER, now: NOW_MS });
    expect(claims.dsec.evidence_digest).toBe(await sha256(jws));
    await expect(issue({ jws: forged, held, crypto })).rejects.toMatchObject({ code: "EVIDENCE_INVALID" });
    const neutral = { ...fresh.publicKey, x: Buffer.from([1, ...new Uint8Array(31)]).toString("base64url") };
    await expect(issue({ jws, held: { ...held, executorKey: neutral }, crypto })).rejects.toMatchObject({
      code: "EVIDENCE_INVALID",
      message: expect.stringMatching(/small order/),
    });
  }
});

test("members in another order are the same result, and a task without a nonce has no eat_nonce", async () => {
  const { outcome, outputs, stdout, stderr } = attempt.result;
  const spec = { ...attempt.held.spec, nonce: null };
  const { jwt } = await issue({
    result: {
      stderr,
      stdout,
      outputs: outputs.map(({ path, digest, size }) => ({ size, digest, path })),
      outcome,
    },
    held: { spec },
    evidence: (evidence) => {
      evidence.nonce = null;
    },
  });
  const claims = await verifyAttestation(jwt, { jwks: keys.jwks(), issuer: ISSUER, now: NOW_MS });
  expect(claims).not.toHaveProperty("eat_nonce");
});

const other = await sha256("something else");
const MISMATCHES: [string, (evidence: Evidence) => void, string | RegExp][] = [
  [
    "lease_id",
    (e) => {
      e.lease_id = newId("lease");
    },
    attempt.held.leaseId,
  ],
  [
    "fence",
    (e) => {
      e.fence = 2;
    },
    /fence is 2, expected 3/,
  ],
  [
    "attempt",
    (e) => {
      e.attempt = 1;
    },
    /attempt is 1, expected 2/,
  ],
  [
    "task_id",
    (e) => {
      e.task_id = newId("task");
    },
    attempt.held.taskId,
  ],
  [
    "spec_digest",
    (e) => {
      e.spec_digest = other;
    },
    other,
  ],
  [
    "nonce",
    (e) => {
      e.nonce = "client-nonce-2";
    },
    /nonce is client-nonce-2, expected client-nonce-1/,
  ],
  [
    "nonce",
    (e) => {
      e.nonce = null;
    },
    /nonce is null, expected client-nonce-1/,
  ],
  [
    "image.name",
    (e) => {
      e.image.name = "python:3.11";
    },
    /image.name is python:3.11, expected host/,
  ],
  [
    "resources",
    (e) => {
      e.resources.memory_mb += 1;
    },
    /resources is .*"memory_mb":513/,
  ],
  [
    "result.outcome",
    (e) => {
      e.result.outcome.exit_code = 1;
    },
    /"exit_code":1.*expected .*"exit_code":0/,
  ],
  [
    "result.outputs",
    (e) => {
      e.result.outputs.pop();
    },
    /result.outputs is/,
  ],
  [
    "result.outputs",
    (e) => {
      e.result.outputs.reverse();
    },
    /result.outputs is/,
  ],
  [
    "result.outputs",
    (e) => {
      e.result.outputs[0]!.digest = other;
    },
    other,
  ],
  [
    "result.stdout",
    (e) => {
      e.result.stdout.digest = other;
    },
    other,
  ],
  [
    "result.stderr",
    (e) => {
      e.result.stderr.total_bytes += 1;
    },
    /result.stderr is/,
  ],
  [
    "calls.count",
    (e) => {
      e.calls.count = 1;
    },
    /calls.count is 1, expected 0/,
  ],
  [
    "calls.receipts_root",
    (e) => {
      e.calls.receipts_root = other;
    },
    other,
  ],
  [
    "trace",
    (e) => {
      e.trace!.digest = other;
    },
    other,
  ],
  [
    "trace size",
    (e) => {
      e.trace!.size += 1;
    },
    /trace size is/,
  ],
  [
    "isolation",
    (e) => {
      e.isolation = null;
    },
    /isolation is null, expected what was observed, as the command exited/,
  ],
];

test.each(MISMATCHES)(
  "evidence whose %s contradicts what the gateway knows is refused by name",
  async (member, change, values) => {
    const error = await issue({ evidence: change }).catch((error) => error);
    expect(error).toMatchObject({
      code: "EVIDENCE_MISMATCH",
      details: { member, given: expect.anything(), expected: expect.anything() },
    });
    expect(error.message).toContain(attempt.held.leaseId);
    expect(error.message).toContain(attempt.held.taskId);
    if (typeof values === "string") expect(error.message).toContain(values);
    else expect(error.message).toMatch(values);
  },
);

test("an image named by digest must be that image", async () => {
  const spec = { ...attempt.held.spec, image: other };
  await expect(
    issue({
      held: { spec },
      evidence: (e) => {
        e.image.name = other;
      },
    }),
  ).rejects.toMatchObject({
    code: "EVIDENCE_MISMATCH",
    details: { member: "image.digest", expected: other },
  });
});

test("content that was not uploaded, or has another size, is not attested", async () => {
  for (const [name, digest, size] of [
    ["result.stdout", attempt.result.stdout.digest, attempt.result.stdout.kept_bytes],
    ["result.stderr", attempt.result.stderr.digest, attempt.result.stderr.kept_bytes],
    [
      `result.outputs ${attempt.result.outputs[1]!.path}`,
      attempt.result.outputs[1]!.digest,
      attempt.result.outputs[1]!.size,
    ],
  ] as const) {
    const absent = async (asked: string) => (asked === digest ? null : attempt.blobSize(asked));
    await expect(issue({ blobSize: absent })).rejects.toMatchObject({
      code: "EVIDENCE_MISMATCH",
      details: { member: name, given: digest },
    });
    const longer = async (asked: string) => (asked === digest ? size + 1 : attempt.blobSize(asked));
    await expect(issue({ blobSize: longer })).rejects.toMatchObject({
      code: "EVIDENCE_MISMATCH",
      details: { member: `${name} size`, given: String(size), expected: String(size + 1) },
    });
  }
  await expect(issue({ blobSize: () => Promise.reject(new Error("disk on fire")) })).rejects.toThrow(
    "disk on fire",
  );
});

test("evidence of another executor's key, id, type or algorithm is no evidence", async () => {
  const thief = new TestExecutor();
  const body = attempt.evidence;
  const header = { alg: "EdDSA", kid: executor.id, typ: TYP.evidence };
  const cases: [string, string, RegExp][] = [
    [await forgeJws(header, body, thief.sign), "EVIDENCE_INVALID", /did not sign it/],
    [await forgeJws({ ...header, kid: thief.id }, body, executor.sign), "EVIDENCE_MISMATCH", /kid is exec_/],
    [
      await forgeJws(header, { ...body, executor_id: thief.id }, executor.sign),
      "EVIDENCE_MISMATCH",
      /executor_id is/,
    ],
    [await forgeJws({ ...header, typ: TYP.attestation }, body, executor.sign), "EVIDENCE_INVALID", /typ is/],
    [
      await forgeJws({ ...header, alg: "none" }, body, () => new Uint8Array(0)),
      "UNSUPPORTED_ALGORITHM",
      /"none"/,
    ],
    [
      await forgeJws({ ...header, alg: "ES256" }, body, executor.sign),
      "UNSUPPORTED_ALGORITHM",
      /executor's key is for EdDSA/,
    ],
    [await forgeJws(header, { ...body, extra: 1 }, executor.sign), "EVIDENCE_INVALID", /extra/],
    [await forgeJws(header, { ...body, fence: "3" }, executor.sign), "EVIDENCE_INVALID", /fence/],
    [await forgeJws(header, { ...body, fence: 2 ** 53 }, executor.sign), "EVIDENCE_INVALID", /fence/],
    [
      await forgeJws(header, JSON.stringify(body).replace('"fence":3', '"fence":2,"fence":3'), executor.sign),
      "EVIDENCE_INVALID",
      /repeated/,
    ],
    [await forgeJws(header, "[".repeat(100_000), executor.sign), "EVIDENCE_INVALID", /deeper/],
    ["", "EVIDENCE_INVALID", /three parts/],
    ["x".repeat(LIMITS.evidenceBytes + 1), "EVIDENCE_INVALID", /at most/],
  ];
  for (const [jws, code, message] of cases) {
    const error = await issue({ jws }).catch((error) => error);
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
  }
});

test("every end that an attempt can come to is attested as what it was", async () => {
  for (const reason of END_REASONS) {
    const outcome = { reason, exit_code: null, signal: null, message: null };
    const result = { ...attempt.result, outcome };
    const change = (evidence: Evidence) => {
      evidence.result = result;
    };
    const { jwt } = await issue({ evidence: change, result });
    const claims = await verifyAttestation(jwt, { jwks: keys.jwks(), issuer: ISSUER, now: NOW_MS });
    expect(claims.dsec.result.outcome).toEqual(outcome);
  }
});

test("a failed attempt is attested without a sandbox, and may not attest a result in passing", async () => {
  const failed = (evidence: Evidence) => {
    evidence.isolation = null;
    evidence.usage = null;
    evidence.result.outcome = {
      reason: "launch_failed",
      exit_code: null,
      signal: null,
      message: "no such image",
    };
  };
  const { jwt } = await issue({ evidence: failed, result: FAILED });
  const claims = await verifyAttestation(jwt, { jwks: keys.jwks(), issuer: ISSUER, now: NOW_MS });
  expect(claims.dsec).toMatchObject({
    isolation: null,
    usage: null,
    result: { outcome: { reason: "launch_failed" } },
  });
  await expect(issue({ result: FAILED })).rejects.toMatchObject({
    code: "EVIDENCE_MISMATCH",
    details: { member: "result.outcome.reason", given: "exited" },
  });
});

test("where only the record of a command failed, its own end is attested with what was observed of its sandbox", async () => {
  const outcome = { reason: "record_failed", exit_code: 3, signal: null, message: "no trace" } as const;
  const { jwt } = await issue({
    evidence: (evidence) => {
      evidence.result.outcome = outcome;
    },
    result: { outcome },
  });
  const claims = await verifyAttestation(jwt, { jwks: keys.jwks(), issuer: ISSUER, now: NOW_MS });
  expect(claims.dsec.result.outcome).toEqual(outcome);
  for (const [change, member] of [
    [{ exit_code: 0 }, "result.outcome.exit_code"],
    [{ reason: "launch_failed" as const }, "result.outcome.reason"],
  ] as const) {
    const evidence = (evidence: Evidence) => {
      evidence.result.outcome = { ...outcome, ...change };
    };
    await expect(issue({ evidence, result: { outcome } })).rejects.toMatchObject({ details: { member } });
  }
  const unseen = (evidence: Evidence) => {
    evidence.result.outcome = outcome;
    evidence.isolation = null;
  };
  await expect(issue({ evidence: unseen, result: { outcome } })).rejects.toMatchObject({
    details: { member: "isolation" },
  });
});

test("the largest evidence that is taken becomes an attestation that is read", async () => {
  const many = await finishedAttempt(executor, LIMITS.outputFiles);
  for (const output of many.evidence.result.outputs) output.path += "x".repeat(100);
  const { jwt } = await issueAttestation({
    ...many,
    keys,
    issuer: "https://".padEnd(1024, "x"),
    now: NOW_MS,
    evidence: await executor.sendEvidence(many.evidence),
  });
  const claims = await verifyAttestation(jwt, { jwks: keys.jwks(), issuer: null, now: NOW_MS });
  expect(claims.dsec.result.outputs).toHaveLength(LIMITS.outputFiles);

  for (const output of many.evidence.result.outputs) output.path += "x".repeat(200);
  await expect(executor.sendEvidence(many.evidence)).rejects.toMatchObject({
    code: "OUTPUT_TOO_LARGE",
    message: expect.stringMatching(/1024 outputs; at most 458752 can be attested/),
  });
});
