/** Keys change while attestations stay good: in the data folder's key ring and in a hardware module. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeProtectedHeader } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient } from "#sdk/client.ts";
import { dsec } from "#test/cli/dsec.ts";
import { makeSoftHsmToken, SOFTHSM_LIBRARY } from "#test/support/softhsm.ts";
import { leftovers, startUp } from "./system.ts";

const PIN = "7391-user-pin";
let folder: string;
let token: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "dsec-signing-"));
  token = makeSoftHsmToken({ label: "dsec", pin: PIN });
});
afterAll(async () => {
  rmSync(token, { recursive: true, force: true });
  expect(await leftovers(folder)).toEqual([]);
});

test("a rotation reaches a running gateway, a restart keeps the key, and what an old key signed verifies", async () => {
  const data = join(folder, "executor");
  /** Runs a task, saves its attestation, and returns the key that signed it. */
  const signed = async (name: string) => {
    const ran = await dsec(["run", "-q", "--save", join(folder, name), "--", "echo", name], {
      env: { DSEC_DATA: data },
    });
    expect(ran.code, ran.stderr).toBe(0);
    return decodeProtectedHeader(readFileSync(join(folder, name, "attestation.jwt"), "utf8")).kid!;
  };

  let up = await startUp(data);
  const first = await signed("first");
  const rotated = await dsec(["signing-key", "rotate", "--data", data]);
  expect(rotated.stderr).toContain(`key ${first} is retired`);
  const published = async () => (await createClient({ gateway: up.url }).jwks()).keys.map(({ kid }) => kid);
  await expect.poll(published, { timeout: 10_000 }).toHaveLength(3);
  const second = await signed("second");
  expect(second).not.toBe(first);
  await up.stop();

  up = await startUp(data);
  expect(await signed("third"), "a restart changed the key").toBe(second);
  expect((await published())[2]).toBe(first);
  await up.stop();

  const newest = join(folder, "third", "jwks.json");
  for (const name of ["first", "second", "third"]) {
    const verified = await dsec(["verify", join(folder, name, "attestation.jwt"), "--jwks", newest]);
    expect(verified.code, verified.stderr).toBe(0);
  }
});

test.each(["EdDSA", "ES256"])(
  "a gateway signs with keys in a hardware module (%s), rotated by their labels",
  async (alg) => {
    const data = join(folder, alg);
    const keysOf = async (labels: string[]) => {
      const module = ["--hsm-library", SOFTHSM_LIBRARY, "--hsm-token", "dsec", "--hsm-alg", alg];
      const gateway = dsec(["gateway", "--port", "0", "--data", data, ...module, ...labels], {
        env: { DSEC_HSM_PIN: PIN },
      });
      const serving = join(data, "serving.json");
      await expect.poll(() => existsSync(serving), { timeout: 60_000 }).toBe(true);
      const { url } = JSON.parse(readFileSync(serving, "utf8"));
      const { keys } = await createClient({ gateway: url }).jwks();
      gateway.kill("SIGTERM");
      expect(await gateway).toMatchObject({ code: 0 });
      expect(keys.map((key) => key.alg)).toEqual(keys.map(() => alg));
      return keys.map(({ kid }) => kid);
    };
    const labels = ["2025", "2026", "2027"].map((year) => `${alg}-${year}`);
    const [current, next] = await keysOf([
      "--hsm-key",
      labels[0]!,
      "--hsm-next-key",
      labels[1]!,
      "--hsm-create",
    ]);
    const rotated = await keysOf([
      ...["--hsm-key", labels[1]!, "--hsm-next-key", labels[2]!, "--hsm-create"],
      ...["--hsm-retired-key", labels[0]!],
    ]);
    expect([rotated[0], rotated[2]]).toEqual([next, current]);
  },
);
