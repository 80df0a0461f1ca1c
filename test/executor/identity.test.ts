import { createPublicKey, verify } from "node:crypto";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { importJWK, jwtVerify } from "jose";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GatewayClock } from "#executor/gateway-clock.ts";
import { openIdentity } from "#executor/identity.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "dsec-identity-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

test("a key is made once, for its owner's eyes only, and stays the same", async () => {
  const first = await openIdentity(directory);
  const [name] = await readdir(directory);
  expect((await stat(join(directory, name!))).mode & 0o777).toBe(0o600);
  expect((await openIdentity(directory)).publicKey).toEqual(first.publicKey);
});

test("starts that race for the first key all get the one that won, and leave no other file", async () => {
  const keys = await Promise.all(Array.from({ length: 16 }, () => openIdentity(directory)));
  expect(new Set(keys.map((key) => key.publicKey.x)).size).toBe(1);
  expect(await readdir(directory)).toHaveLength(1);
});

test.each([
  ["cut off", (text: string) => text.slice(0, 40)],
  ["empty", () => ""],
  ["another kind of key", () => JSON.stringify({ kty: "oct", k: "c2VjcmV0" })],
])("a key file that is %s is refused and left as it is, never replaced", async (_, damage) => {
  await openIdentity(directory);
  const path = join(directory, "identity.jwk");
  const damaged = damage(await readFile(path, "utf8"));
  await writeFile(path, damaged);
  await expect(openIdentity(directory)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  expect(await readFile(path, "utf8")).toBe(damaged);
});

test("a refusal of a key file never quotes it", async () => {
  await openIdentity(directory);
  const path = join(directory, "identity.jwk");
  const { d } = JSON.parse(await readFile(path, "utf8"));
  await writeFile(path, `{"d":"${d}"`);
  const error = (await openIdentity(directory).catch((e: Error) => e)) as Error;
  expect(`${error.message} ${error.stack} ${error.cause}`).not.toContain(d);
});

test("a key that other users can read is refused with the command that mends it", async () => {
  await openIdentity(directory);
  await chmod(join(directory, "identity.jwk"), 0o644);
  await expect(openIdentity(directory)).rejects.toThrow(/chmod 600/);
});

test("a stock JOSE library verifies the token, which lives a minute at most", async () => {
  const identity = await openIdentity(directory);
  const nowMs = Date.UTC(2030, 0, 1);
  const token = identity.token("exec_1", "https://gateway.example", nowMs);
  const { payload } = await jwtVerify(token, await importJWK({ ...identity.publicKey }, "EdDSA"), {
    algorithms: ["EdDSA"],
    typ: "dsec-executor+jwt",
    issuer: "exec_1",
    audience: "https://gateway.example",
    currentDate: new Date(nowMs),
  });
  expect(payload.iat).toBe(nowMs / 1000);
  expect(payload.exp! - payload.iat!).toBeLessThanOrEqual(60);
});

test("signatures are plain Ed25519 over the bytes", async () => {
  const identity = await openIdentity(directory);
  const bytes = Buffer.from("evidence");
  const key = createPublicKey({ key: { ...identity.publicKey }, format: "jwk" });
  expect(verify(null, bytes, key, await identity.sign(bytes))).toBe(true);
});

test("a host clock that is ten minutes off, either way, or is stepped, does not move the gateway's time (B60)", () => {
  const gatewayMs = Date.UTC(2030, 0, 1, 12);
  for (const skewMs of [-600_000, 600_000, -3_600_000]) {
    let monotonicMs = 5_000;
    const clock = new GatewayClock(() => monotonicMs, gatewayMs + skewMs);
    clock.observe(new Date(gatewayMs).toUTCString(), monotonicMs, monotonicMs + 20);
    monotonicMs += 20;
    expect(Math.abs(clock.nowMs() - (gatewayMs + 20))).toBeLessThanOrEqual(1_000);
    // Only the monotonic clock carries it on: a step of Date.now() is not seen at all.
    monotonicMs += 90_000;
    expect(Math.abs(clock.nowMs() - (gatewayMs + 90_020))).toBeLessThanOrEqual(1_000);
  }
});

test("answers that fit the known time do not make it jitter, and no or a broken Date changes nothing", () => {
  let monotonicMs = 0;
  const clock = new GatewayClock(() => monotonicMs, 1_000_000_400);
  monotonicMs = 100;
  clock.observe(new Date(1_000_000_000).toUTCString(), 90, 100);
  clock.observe(null, 90, 100);
  clock.observe("yesterday", 90, 100);
  expect(clock.nowMs()).toBe(1_000_000_500);
});
