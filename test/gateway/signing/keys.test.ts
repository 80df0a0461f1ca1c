import { execFile } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { inspect, promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { createFileSigner } from "#gateway/node/file-signer.ts";
import { openKeyStore, RELOAD_EVERY_MS } from "#gateway/node/key-store.ts";
import { createKeyRing, retire } from "#gateway/signing/key-ring.ts";
import { generateWebCryptoSigner, importWebCryptoSigner } from "#gateway/signing/webcrypto-signer.ts";
import { ISSUER, issuedAttestation, NOW_MS } from "#test/support/attestation.ts";
import { importJwk } from "#trace/attestation/keys.ts";
import { verifyAttestation } from "#trace/attestation/verify.ts";

let folder: string;
const clock = { nowMs: NOW_MS };
const now = () => clock.nowMs;
const open = (path = folder) => openKeyStore(path, { now });
const kids = (keys: ReturnType<typeof open>) => keys.jwks().keys.map(({ kid }) => kid);

beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), "dsec-keys-")), "keys");
  clock.nowMs = NOW_MS;
});
afterEach(() => rmSync(resolve(folder, ".."), { recursive: true, force: true }));

const PRIVATE = {
  EdDSA: generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" }),
  ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }),
};

test.each(["EdDSA", "ES256"] as const)(
  "every driver signs what the published key verifies (%s)",
  async (alg) => {
    const bytes = new TextEncoder().encode("header.payload");
    const signers = [
      createFileSigner(PRIVATE[alg]),
      await importWebCryptoSigner(PRIVATE[alg]),
      await generateWebCryptoSigner(alg),
    ];
    for (const signer of signers) {
      const key = await importJwk({ ...signer.publicJwk, kid: signer.kid, alg: signer.alg, use: "sig" });
      expect(key).toMatchObject({ alg, thumbprint: signer.kid });
      expect(await key.verify(bytes, await signer.sign(bytes))).toBe(true);
      expect(JSON.stringify(signer)).not.toContain(PRIVATE[alg].d);
    }
    expect(signers[0]!.kid).toBe(signers[1]!.kid);
  },
);

test("a private key whose parts do not belong together is refused, and never quoted", async () => {
  const [ed, ec, other] = [
    PRIVATE.EdDSA,
    PRIVATE.ES256,
    generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" }),
  ];
  for (const jwk of [
    { ...ed, x: other.x },
    { ...ec, y: ec.x },
    { ...ed, d: undefined },
    { ...ed, d: "short" },
    { ...ed, crv: "X25519" },
    { kty: "oct", k: ed.d },
    null,
    7,
  ]) {
    for (const load of [async () => createFileSigner(jwk), () => importWebCryptoSigner(jwk)]) {
      const error = await load().then(
        () => "accepted",
        (error) => error,
      );
      expect(error, inspect(jwk)).toMatchObject({ code: "CONFIG_INVALID" });
      expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(ed.d);
    }
  }
});

test("a restart keeps the keys", () => {
  const before = open();
  const file = join(folder, readdirSync(folder)[0]!);
  const bytes = readFileSync(file);
  const after = open();
  expect(kids(after)).toEqual(kids(before));
  expect(after.current().kid).toBe(before.current().kid);
  expect(readFileSync(file)).toEqual(bytes);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(readdirSync(folder)).toEqual(["ring-000001.json"]);
});

test("the next key is published before it signs, and a retired one until its last token has expired", async () => {
  const ring = open();
  const [first, second] = kids(ring);
  expect(ring.current().kid).toBe(first);
  const { attestation } = await issuedAttestation({ signer: ring.current() });

  ring.rotate();
  const [, third] = kids(ring);
  expect(kids(ring)).toEqual([second, third, first]);
  expect(ring.current().kid).toBe(second);
  expect(kids(open())).toEqual(kids(ring));
  await verifyAttestation(attestation.jwt, { jwks: ring.jwks(), issuer: ISSUER, now: NOW_MS });
  // the private half of a retired key is gone
  expect(readdirSync(folder)).toEqual(["ring-000002.json"]);
  const stored = JSON.parse(readFileSync(join(folder, "ring-000002.json"), "utf8"));
  expect(stored.retired).toHaveLength(1);
  expect(stored.retired[0].publicJwk).not.toHaveProperty("d");

  clock.nowMs += (LIMITS.attestationTtlS + LIMITS.clockLeewayS) * 1000 - 1;
  expect(kids(ring)).toContain(first);
  clock.nowMs += 1;
  expect(kids(ring)).toEqual([second, third]);
  ring.rotate();
  expect(kids(ring)).not.toContain(first);
});

test("a running gateway takes up another process's rotation, and stays on its keys if the folder breaks", () => {
  const notes: string[] = [];
  const running = openKeyStore(folder, { now, log: (message) => notes.push(message) });
  const before = kids(running);
  open().rotate();
  expect(running.current().kid).toBe(before[0]);
  clock.nowMs += RELOAD_EVERY_MS;
  expect(running.current().kid).toBe(before[1]);

  writeFileSync(join(folder, "ring-000003.json"), "{", { mode: 0o600 });
  clock.nowMs += RELOAD_EVERY_MS;
  expect(running.current().kid).toBe(before[1]);
  expect(notes).toEqual([expect.stringMatching(/did not reload; the ones in memory stay in force/)]);
  expect(() => open()).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
});

test("damaged, readable-by-others or foreign keys stop the start and are left as they are, never replaced", () => {
  const ring = open();
  const path = join(folder, "ring-000001.json");
  const good = readFileSync(path, "utf8");
  const parsed = JSON.parse(good);
  const secret = parsed.current.d;
  const damage: [string, string][] = [
    ["empty", ""],
    ["cut", good.slice(0, good.length / 2)],
    ["not JSON", good.replace('"version"', "version")],
    ["a later version", good.replace('"version": 1', '"version": 2')],
    ["an unknown member", good.replace('"version": 1', '"version": 1, "extra": 1')],
    ["no current key", JSON.stringify({ ...parsed, current: undefined })],
    [
      "another key's public part",
      JSON.stringify({ ...parsed, current: { ...parsed.current, x: parsed.next.x } }),
    ],
    ["one key twice", JSON.stringify({ ...parsed, next: parsed.current })],
    [
      "a flipped private part",
      JSON.stringify({ ...parsed, current: { ...parsed.current, d: parsed.next.d } }),
    ],
  ];
  for (const [name, text] of damage) {
    writeFileSync(path, text);
    let error: unknown;
    try {
      open();
    } catch (thrown) {
      error = thrown;
    }
    expect(error, name).toMatchObject({ code: "CONFIG_INVALID", message: expect.stringContaining(path) });
    expect((error as Error).message, name).toMatch(/restore it from a backup/);
    expect(inspect(error, { depth: 9, showHidden: true }), name).not.toContain(secret);
    expect(readFileSync(path, "utf8"), name).toBe(text);
  }
  writeFileSync(path, good);
  chmodSync(path, 0o640);
  expect(() => open()).toThrow(/mode 640.*chmod 600/);
  chmodSync(path, 0o600);
  expect(kids(open())).toEqual(kids(ring));
  expect(readdirSync(folder)).toEqual(["ring-000001.json"]);
});

test("a folder that cannot hold keys is named, and nothing is half done", () => {
  writeFileSync(`${folder}-file`, "");
  expect(() => open(`${folder}-file`)).toThrow(/keys-file: cannot be made \(EEXIST\)/);
  open();
  rmSync(join(folder, "ring-000001.json"));
  symlinkSync("/nowhere", join(folder, "ring-000001.json"));
  expect(() => open()).toThrow(/ring-000001.json: cannot be read \(ENOENT\)/);
});

test("gateways that start at once on an empty folder end up with one ring, and rotate together once", async () => {
  const code = `
    import { openKeyStore } from "#gateway/node/key-store.ts";
    const ring = openKeyStore(process.argv[1]);
    if (process.argv[2] === "rotate") ring.rotate();
    console.log(JSON.stringify(ring.jwks().keys.map((key) => key.kid)));`;
  const start = async (act: string) => {
    const options = { cwd: resolve(import.meta.dirname, "../../..") };
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--input-type=module", "-e", code, folder, act],
      options,
    );
    return stdout.trim();
  };
  const rings = await Promise.all(Array.from({ length: 6 }, () => start("open")));
  expect(new Set(rings).size).toBe(1);
  expect(readdirSync(folder)).toEqual(["ring-000001.json"]);

  await Promise.all(Array.from({ length: 4 }, () => start("rotate")));
  const after = await start("open");
  // however many of them rotated, every key that ever signed is still published
  expect(JSON.parse(after)).toEqual(expect.arrayContaining(JSON.parse(rings[0]!)));
  expect(readdirSync(folder)).toHaveLength(1);
});

test("a key never stands twice in a ring", async () => {
  const current = await generateWebCryptoSigner("ES256");
  expect(() => createKeyRing({ current, next: current })).toThrow(/stands in it twice/);
  expect(() => createKeyRing({ current, retired: [retire(current, 0)] })).toThrow(/never comes back/);
  const next = await generateWebCryptoSigner("EdDSA");
  expect(createKeyRing({ current, next }).jwks()).toEqual({
    keys: [current, next].map(({ publicJwk, kid, alg }) => ({ ...publicJwk, kid, alg, use: "sig" })),
  });
});
