import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openSecretKey } from "#gateway/node/secret-key.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "dsec-secret-key-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("the key is made once, for its owner only, and opens tomorrow what it sealed today", async () => {
  const keys = join(folder, "keys");
  const sealed = await (await openSecretKey(keys)).seal("a secret value", "context");
  expect(readdirSync(keys)).toEqual(["secrets.key"]);
  expect(statSync(join(keys, "secrets.key")).mode & 0o777).toBe(0o600);
  expect(await (await openSecretKey(keys)).open(sealed, "context")).toBe("a secret value");
  await expect((await openSecretKey(keys)).open(sealed, "another")).rejects.toMatchObject({
    code: "CONFIG_INVALID",
  });
});

test("of gateways that start at once one makes the key, and all use it", async () => {
  const ciphers = await Promise.all(Array.from({ length: 8 }, () => openSecretKey(folder)));
  const sealed = await ciphers[0]!.seal("a secret value", "context");
  for (const cipher of ciphers) expect(await cipher.open(sealed, "context")).toBe("a secret value");
  expect(readdirSync(folder)).toEqual(["secrets.key"]);
});

test("a key that others can read, or that is damaged, is refused and never replaced", async () => {
  const path = join(folder, "secrets.key");
  await openSecretKey(folder);
  const key = readFileSync(path);
  chmodSync(path, 0o640);
  await expect(openSecretKey(folder)).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining("chmod 600"),
  });
  chmodSync(path, 0o600);
  writeFileSync(path, key.subarray(1));
  await expect(openSecretKey(folder)).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining("damaged"),
  });
  expect(readFileSync(path)).toEqual(key.subarray(1));
});
