import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { type ExecutorId, type LeaseId, newId, type TaskId } from "#core/ids.ts";
import { jsonDigest, sha256 } from "#core/json.ts";
import type { Evidence, TraceSummary } from "#core/wire/attestations.ts";
import { ResourcesSchema } from "#core/wire/common.ts";
import type { PublicKey } from "#core/wire/executors.ts";
import { type Result, TaskSpecSchema } from "#core/wire/tasks.ts";
import type { HeldLease, Signer } from "#gateway/ports.ts";
import { issueAttestation } from "#gateway/signing/issue.ts";
import { createKeyRing } from "#gateway/signing/key-ring.ts";
import { generateWebCryptoSigner } from "#gateway/signing/webcrypto-signer.ts";
import { ISOLATION } from "#test/support/isolation.ts";
import { signEvidence } from "#trace/attestation/evidence.ts";

export const ISSUER = "https://dsec.example";
/** 2027-01-15T08:00:00Z, a whole second. */
export const NOW_MS = 1_800_000_000_000;

const NO_CALLS = { count: 0, receipts_root: null };

/** An executor's identity as the executor room makes it: an Ed25519 key of its own. */
export class TestExecutor {
  readonly id: ExecutorId = newId("executor");
  readonly privateKey: KeyObject;
  readonly publicKey: PublicKey;

  constructor() {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    this.privateKey = privateKey;
    this.publicKey = publicKey.export({ format: "jwk" }) as PublicKey;
  }

  readonly sign = (bytes: Uint8Array): Uint8Array => sign(null, bytes, this.privateKey);

  sendEvidence(evidence: Evidence): Promise<string> {
    return signEvidence(evidence, this.sign);
  }
}

/** An attempt that ran to its end, as each side knows it. */
export async function finishedAttempt(executor: TestExecutor, outputCount = 1) {
  const files = new Map<string, string>([
    ["stdout", "scored 150 episodes\n"],
    ["stderr", "no warnings\n"],
    ...Array.from({ length: outputCount }, (_, i): [string, string] => [
      `/work/output-${i}.json`,
      `{"score":${i}}`,
    ]),
  ]);
  const blobs = new Map<string, number>();
  for (const content of files.values()) blobs.set(await sha256(content), content.length);
  const stream = async (name: string) => {
    const content = files.get(name)!;
    return { digest: await sha256(content), kept_bytes: content.length, total_bytes: content.length };
  };
  const result: Result = {
    outcome: { reason: "exited", exit_code: 0, signal: null, message: null },
    outputs: await Promise.all(
      [...files]
        .filter(([path]) => path.startsWith("/"))
        .map(async ([path, content]) => ({ path, digest: await sha256(content), size: content.length })),
    ),
    stdout: await stream("stdout"),
    stderr: await stream("stderr"),
  };
  const spec = TaskSpecSchema.parse({ command: ["python3", "/work/agent.py"], nonce: "client-nonce-1" });
  const held: HeldLease = {
    leaseId: newId("lease") as LeaseId,
    taskId: newId("task") as TaskId,
    executorId: executor.id,
    fence: 3,
    attempt: 2,
    spec,
    specDigest: await jsonDigest(spec),
    executorKey: executor.publicKey,
    cancelRequested: false,
  };
  const evidence: Evidence = {
    profile: "urn:dsec:evidence:1",
    task_id: held.taskId,
    lease_id: held.leaseId,
    fence: held.fence,
    attempt: held.attempt,
    executor_id: executor.id,
    build: "0.1.0+test",
    host: { hostname: "host-1", kernel: "6.18.0", cgroup: "v2", arch: "x64" },
    spec_digest: held.specDigest,
    nonce: spec.nonce,
    image: { name: "host", digest: await sha256("host image") },
    resources: ResourcesSchema.parse(spec.resources),
    isolation: ISOLATION,
    result,
    calls: NO_CALLS,
    trace: {
      count: 0,
      chain_head: `sha256:${"0".repeat(64)}`,
      digest: result.stdout.digest,
      size: result.stdout.kept_bytes,
    },
    durations_us: { launch: 1840, run: 120_311 },
    usage: { cpu_us: 98_000, memory_peak_bytes: 31_457_280 },
  };
  const blobSize = async (digest: string) => blobs.get(digest) ?? null;
  return { held, result, calls: NO_CALLS, evidence, blobSize, files };
}

/** A real attestation of a real attempt, and the ring that signed it. */
export async function issuedAttestation(
  options: {
    alg?: Signer["alg"];
    outputCount?: number;
    signer?: Signer;
    nowMs?: number;
    /** Makes the attempt's trace. */
    trace?: (held: HeldLease) => Promise<TraceSummary>;
  } = {},
) {
  const executor = new TestExecutor();
  const attempt = await finishedAttempt(executor, options.outputCount);
  const trace = await options.trace?.(attempt.held);
  if (trace !== undefined) {
    const { blobSize } = attempt;
    attempt.evidence.trace = trace;
    attempt.blobSize = async (digest) => (digest === trace.digest ? trace.size : blobSize(digest));
  }
  const signer = options.signer ?? (await generateWebCryptoSigner(options.alg ?? "EdDSA"));
  const keys = createKeyRing({ current: signer, now: () => NOW_MS });
  const attestation = await issueAttestation({
    ...attempt,
    keys,
    issuer: ISSUER,
    now: options.nowMs ?? NOW_MS,
    evidence: await executor.sendEvidence(attempt.evidence),
  });
  return { ...attempt, executor, signer, keys, attestation, jwks: keys.jwks() };
}

/** A compact JWS over exactly these texts, signed or not as `sign` has it: for tokens that our own code never makes. */
export async function forgeJws(
  header: unknown,
  payload: unknown,
  sign: (bytes: Uint8Array) => Uint8Array | Promise<Uint8Array>,
): Promise<string> {
  const part = (value: unknown) =>
    Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
  const signed = `${part(header)}.${part(payload)}`;
  return `${signed}.${Buffer.from(await sign(Buffer.from(signed))).toString("base64url")}`;
}
