// What somebody does who has nothing of ours but this page: the attestation, the key set, and a stock JOSE library.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { createLocalJWKSet, jwtVerify } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ISSUER, issuedAttestation, NOW_MS } from "#test/support/attestation.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "dsec-stranger-"));
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(join(ROOT, "node_modules/jose"), join(folder, "node_modules/jose"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each(["EdDSA", "ES256"] as const)("a stock JOSE library verifies an attestation (%s)", async (alg) => {
  const { attestation, jwks, result } = await issuedAttestation({ alg });
  const verified = await jwtVerify(attestation.jwt, createLocalJWKSet(jwks), {
    typ: "dsec-attestation+jwt",
    algorithms: ["EdDSA", "ES256"],
    issuer: ISSUER,
    currentDate: new Date(NOW_MS),
  });
  expect(verified.payload.dsec).toMatchObject({ result });
  expect(verified.protectedHeader).toEqual({ alg, kid: jwks.keys[0]!.kid, typ: "dsec-attestation+jwt" });
});

test("the five lines of docs/attestation.md verify an attestation, and refuse a changed one", async () => {
  const page = readFileSync(join(ROOT, "docs/attestation.md"), "utf8");
  const lines = /```js\n([\s\S]*?)```/.exec(page)![1]!;
  expect(lines.trim().split("\n")).toHaveLength(5);
  writeFileSync(
    join(folder, "verify.mjs"),
    `const issuer = ${JSON.stringify(ISSUER)};\n${lines}console.log(JSON.stringify(payload));\n`,
  );
  const { attestation, jwks, held } = await issuedAttestation({ nowMs: Date.now() });
  writeFileSync(join(folder, "jwks.json"), JSON.stringify(jwks));
  const run = (jwt: string) => {
    writeFileSync(join(folder, "attestation.jwt"), `${jwt}\n`);
    return promisify(execFile)(process.execPath, ["verify.mjs"], { cwd: folder });
  };
  const { stdout } = await run(attestation.jwt);
  expect(stdout).toContain(held.taskId);
  expect(stdout).toContain("exited");
  expect(stdout).toContain("/work/output-0.json");

  const middle = Math.floor(attestation.jwt.length / 2);
  const changed = attestation.jwt[middle] === "A" ? "B" : "A";
  const tampered = attestation.jwt.slice(0, middle) + changed + attestation.jwt.slice(middle + 1);
  await expect(run(tampered)).rejects.toMatchObject({
    stderr: expect.stringMatching(/JWSSignatureVerificationFailed|JWSInvalid/),
  });
});
