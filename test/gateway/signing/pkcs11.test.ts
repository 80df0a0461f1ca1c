import { rmSync } from "node:fs";
import { inspect } from "node:util";
import pkcs11js from "pkcs11js";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { DsecError } from "#core/errors.ts";
import { openPkcs11Token } from "#gateway/node/pkcs11-signer.ts";
import type { Signer } from "#gateway/ports.ts";
import { issueAttestation } from "#gateway/signing/issue.ts";
import { createKeyRing } from "#gateway/signing/key-ring.ts";
import { finishedAttempt, ISSUER, NOW_MS, TestExecutor } from "#test/support/attestation.ts";
import { makeSoftHsmToken, SOFTHSM_LIBRARY } from "#test/support/softhsm.ts";
import { importJwk } from "#trace/attestation/keys.ts";

const PIN = "7391-user-pin";
let folder: string;

beforeAll(() => {
  folder = makeSoftHsmToken({ label: "dsec", pin: PIN });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const open = (config: { pin?: string; token?: string; library?: string } = {}) =>
  openPkcs11Token({ library: SOFTHSM_LIBRARY, token: "dsec", pin: PIN, ...config });

const refusal = (act: Promise<unknown>): Promise<DsecError> =>
  act.then(
    () => {
      throw new Error("it was accepted");
    },
    (error) => error,
  );

test.each(["EdDSA", "ES256"] as const)(
  "a key made in the token signs for %s, and is the same key after a restart",
  async (alg) => {
    const token = await open();
    const made = await token.signer({ label: `dsec-${alg}`, alg, create: true });
    const bytes = new TextEncoder().encode("what was signed");
    const key = await importJwk(made.publicJwk);
    // more calls at once than there are sessions
    const signatures = await Promise.all(Array.from({ length: 40 }, () => made.sign(bytes)));
    for (const signature of signatures) expect(await key.verify(bytes, signature)).toBe(true);
    token.close();
    await expect(made.sign(bytes)).rejects.toMatchObject({ code: "SIGNER_UNAVAILABLE" });

    const again = await open();
    const found = await again.signer({ label: `dsec-${alg}`, alg, create: true });
    expect(found.kid).toBe(made.kid);
    expect(await key.verify(bytes, await found.sign(bytes))).toBe(true);
    again.close();
  },
);

test("a token that is gone issues nothing and says so", async () => {
  const token = await open();
  const signer = await token.signer({ label: "gone", alg: "EdDSA", create: true });
  const { attestation, attempt } = await issueWith(signer);
  expect(attestation.jwt).toMatch(/^eyJ/);
  token.close();
  await expect(issueWith(signer, attempt)).rejects.toMatchObject({
    code: "SIGNER_UNAVAILABLE",
    message: expect.stringMatching(/"dsec" was closed/),
  });
});

async function issueWith(signer: Signer, known?: Awaited<ReturnType<typeof finishedAttempt>>) {
  const executor = new TestExecutor();
  const attempt = known ?? (await finishedAttempt(executor));
  const held = { ...attempt.held, executorKey: executor.publicKey, executorId: executor.id };
  const evidence = await executor.sendEvidence({ ...attempt.evidence, executor_id: executor.id });
  const keys = createKeyRing({ current: signer });
  return {
    attempt,
    attestation: await issueAttestation({ ...attempt, held, evidence, keys, issuer: ISSUER, now: NOW_MS }),
  };
}

test("a wrong PIN is refused clearly and stands in no error", async () => {
  const error = await refusal(open({ pin: "0000-wrong-pin" }));
  expect(error).toMatchObject({
    code: "SIGNER_UNAVAILABLE",
    message: expect.stringMatching(/"dsec" refused the PIN/),
  });
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain("0000-wrong-pin");
});

test("a token, library or key that is not there is named with the way out", async () => {
  expect(await refusal(open({ token: "other" }))).toMatchObject({
    code: "SIGNER_UNAVAILABLE",
    message: expect.stringMatching(/0 tokens labelled "other"/),
  });
  expect(await refusal(open({ library: "/nowhere/hsm.so" }))).toMatchObject({
    code: "SIGNER_UNAVAILABLE",
    message: expect.stringMatching(/\/nowhere\/hsm\.so does not load/),
  });
  const token = await open();
  expect(await refusal(token.signer({ label: "absent", alg: "EdDSA" }))).toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringMatching(/"absent".*no private key/),
  });
  token.close();
});

test("the next signature logs in again after the module dropped every session", async () => {
  const token = await open();
  const signer = await token.signer({ label: "dropped", alg: "EdDSA", create: true });
  const module = new pkcs11js.PKCS11();
  module.load(SOFTHSM_LIBRARY);
  for (const slot of module.C_GetSlotList(true)) module.C_CloseAllSessions(slot);
  const bytes = new TextEncoder().encode("after the drop");
  expect(await (await importJwk(signer.publicJwk)).verify(bytes, await signer.sign(bytes))).toBe(true);
  token.close();
});

test("a key is refused that is for the other algorithm, ambiguous, or can be read out of the token", async () => {
  const token = await open();
  await token.signer({ label: "curve", alg: "ES256", create: true });
  expect(await refusal(token.signer({ label: "curve", alg: "EdDSA" }))).toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringMatching(/not a key for EdDSA/),
  });
  makePair("twice", false);
  makePair("twice", false);
  expect(await refusal(token.signer({ label: "twice", alg: "ES256", create: true }))).toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringMatching(/more than one private key/),
  });
  makePair("copied", true);
  expect(await refusal(token.signer({ label: "copied", alg: "ES256" }))).toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringMatching(/can be read out/),
  });
  token.close();
});

/** A P-256 pair as some other tool might have left it. The process is logged in by the token that is open. */
function makePair(label: string, extractable: boolean): void {
  const module = new pkcs11js.PKCS11();
  module.load(SOFTHSM_LIBRARY);
  const slot = module.C_GetSlotList(true).find((id) => module.C_GetTokenInfo(id).label.trim() === "dsec")!;
  const session = module.C_OpenSession(slot, pkcs11js.CKF_SERIAL_SESSION | pkcs11js.CKF_RW_SESSION);
  const shared = [
    { type: pkcs11js.CKA_LABEL, value: label },
    { type: pkcs11js.CKA_TOKEN, value: true },
  ];
  module.C_GenerateKeyPair(
    session,
    { mechanism: pkcs11js.CKM_EC_KEY_PAIR_GEN },
    [...shared, { type: pkcs11js.CKA_EC_PARAMS, value: Buffer.from("06082a8648ce3d030107", "hex") }],
    [...shared, { type: pkcs11js.CKA_EXTRACTABLE, value: extractable }],
  );
  module.C_CloseSession(session);
}
