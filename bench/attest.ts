/**
 * How many attempts a second one core attests: the evidence's signature and schema, every comparison with the lease and
 * the uploads, and the signed JWT. Each attempt has evidence of its own. The figures count the CPU time of the whole
 * process, so that helper threads are not a second core for free and other load on the machine changes nothing.
 */
import { execFileSync } from "node:child_process";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Options } from "#bench/main.ts";
import { closedLoop, median } from "#bench/support/figures.ts";
import { checkpoint } from "#bench/support/interrupt.ts";
import { nodeCrypto } from "#gateway/node/crypto-engine.ts";
import { createFileSigner } from "#gateway/node/file-signer.ts";
import { openPkcs11Token } from "#gateway/node/pkcs11-signer.ts";
import type { Signer } from "#gateway/ports.ts";
import { type IssueRequest, issueAttestation } from "#gateway/signing/issue.ts";
import { createKeyRing } from "#gateway/signing/key-ring.ts";
import { generateWebCryptoSigner } from "#gateway/signing/webcrypto-signer.ts";
import { finishedAttempt, ISSUER, NOW_MS, TestExecutor } from "#test/support/attestation.ts";
import { readJwks } from "#trace/attestation/keys.ts";
import { verifyAttestation } from "#trace/attestation/verify.ts";

const ATTEMPTS = 500;
const ROUNDS = 9;
const CALLERS = 16;

export async function run(
  say: (line: string) => void,
  { signal }: Options,
): Promise<Record<string, unknown>> {
  say(`making the evidence of ${ATTEMPTS} attempts by 8 executors`);
  const requests = await makeRequests();
  await using hsm = await openSoftHsm();
  const signers: [string, Signer][] = [
    ["per_s", fileSigner(generateKeyPairSync("ed25519"))],
    ["per_s_webcrypto", await generateWebCryptoSigner("EdDSA")],
    ["per_s_file_es256", fileSigner(generateKeyPairSync("ec", { namedCurve: "P-256" }))],
    ...(hsm ? [["per_s_hsm", hsm.signer] as [string, Signer]] : []),
  ];
  const works: [string, () => Promise<unknown>][] = signers.map(([name, signer]) => {
    const keys = createKeyRing({ current: signer });
    return [name, () => issueEach(requests, keys)];
  });
  works.push(["verified_per_s", await verifying(requests, signers[0]![1])]);

  // in turns, so that what else the machine does meets all of them
  const rates = new Map(works.map(([name]): [string, number[]] => [name, []]));
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, work] of works) {
      await checkpoint(signal);
      const perS = requests.length / (await cpuSecondsOf(work));
      // the first round warms up
      if (round > 0) rates.get(name)!.push(perS);
    }
  }
  const figures = Object.fromEntries(
    [...rates].map(([name, samples]) => [name, Math.round(median(samples))]),
  );
  for (const [name, perS] of Object.entries(figures)) say(`${name}: ${perS}`);
  // a figure that is missing must not look like one
  return {
    per_s_hsm: null,
    ...figures,
    evidence_bytes: requests[0]!.evidence.length,
    n: ATTEMPTS * ROUNDS,
  };
}

function fileSigner({ privateKey }: { privateKey: KeyObject }): Signer {
  return createFileSigner(privateKey.export({ format: "jwk" }));
}

type Request = Omit<IssueRequest, "keys">;

async function makeRequests(): Promise<Request[]> {
  const executors = Array.from({ length: 8 }, () => new TestExecutor());
  return Promise.all(
    Array.from({ length: ATTEMPTS }, async (_, i) => {
      const executor = executors[i % executors.length]!;
      const { evidence, ...attempt } = await finishedAttempt(executor);
      return { ...attempt, issuer: ISSUER, now: NOW_MS, evidence: await executor.sendEvidence(evidence) };
    }),
  );
}

async function issueEach(requests: Request[], keys: IssueRequest["keys"]): Promise<string[]> {
  const tokens: string[] = [];
  let next = 0;
  await closedLoop(CALLERS, requests.length, async () => {
    tokens.push((await issueAttestation({ ...requests[next++]!, keys, crypto: nodeCrypto })).jwt);
  });
  return tokens;
}

async function verifying(requests: Request[], signer: Signer): Promise<() => Promise<unknown>> {
  const keys = createKeyRing({ current: signer });
  const tokens = await issueEach(requests, keys);
  const jwks = await readJwks(keys.jwks());
  return () => {
    let next = 0;
    return closedLoop(CALLERS, tokens.length, async () => {
      await verifyAttestation(tokens[next++]!, { jwks, issuer: ISSUER, now: NOW_MS });
    });
  };
}

async function cpuSecondsOf(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

/** A fresh token of its own in a temporary folder; null where the machine has no SoftHSM2. */
async function openSoftHsm(): Promise<({ signer: Signer } & AsyncDisposable) | null> {
  const library = "/usr/lib/softhsm/libsofthsm2.so";
  if (!existsSync(library)) return null;
  await using opened = new AsyncDisposableStack();
  const { path } = opened.use(await mkdtempDisposable(join(tmpdir(), "dsec-softhsm-")));
  mkdirSync(join(path, "tokens"));
  process.env.SOFTHSM2_CONF = join(path, "softhsm2.conf");
  writeFileSync(process.env.SOFTHSM2_CONF, `directories.tokendir = ${join(path, "tokens")}\n`);
  const pins = ["--so-pin", "5829-so-pin", "--pin", "7391-user-pin"];
  execFileSync("softhsm2-util", ["--init-token", "--free", "--label", "bench", ...pins]);
  const token = await openPkcs11Token({ library, token: "bench", pin: "7391-user-pin" });
  opened.defer(() => token.close());
  const signer = await token.signer({ label: "bench", alg: "EdDSA", create: true });
  const held = opened.move();
  return { signer, [Symbol.asyncDispose]: () => held.disposeAsync() };
}
