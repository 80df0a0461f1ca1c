import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { ISSUER, issuedAttestation } from "#test/support/attestation.ts";
import { dsec, type Ended } from "./dsec.ts";

let folder: string;
/** `good/` is one result with its keys; `many/` holds keys and two results below. */
let good: string;
let many: string;
let keys: Server;
let keysUrl: string;
let fetches = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "dsec-verify-"));
  good = join(folder, "good");
  many = join(folder, "many");
  // the command judges by the real time, so these are of now
  const issued = await issuedAttestation({ nowMs: Date.now() - 5_000 });
  for (const result of [good, join(many, "one"), join(many, "two")]) {
    mkdirSync(result, { recursive: true });
    for (const [path, content] of issued.files) {
      writeFileSync(join(result, path.replace(/^\/work\//, "")), content);
    }
    writeFileSync(join(result, "attestation.jwt"), `${issued.attestation.jwt}\n`);
  }
  const jwks = JSON.stringify(issued.jwks);
  writeFileSync(join(good, "jwks.json"), jwks);
  writeFileSync(join(many, "jwks.json"), jwks);
  keys = createServer((_, response) => {
    fetches++;
    response.setHeader("content-type", "application/json").end(jwks);
  });
  await new Promise<void>((resolve) => keys.listen(0, "127.0.0.1", resolve));
  keysUrl = `http://127.0.0.1:${(keys.address() as AddressInfo).port}/.well-known/jwks.json`;
});

afterAll(async () => {
  await new Promise((resolve) => keys.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

/** A copy of the good result with something about it changed. */
function changed(name: string, change: (folder: string) => void): string {
  const copy = join(folder, name);
  cpSync(good, copy, { recursive: true });
  change(copy);
  return copy;
}

function firstOf(ended: Ended): {
  state: string;
  code?: string;
  files?: string[];
  judged?: { path: string; state: string }[];
} {
  return JSON.parse(ended.stdout.toString())[0];
}

test("a folder verifies offline and says in words what is proven and what is not", async () => {
  const ended = await dsec(["verify", good]);
  expect(ended.stderr).toContain(join(good, "jwks.json"));
  expect(ended.code).toBe(0);
  const text = ended.stdout.toString();
  expect(text).toMatch(/✓ verified/);
  expect(text).toMatch(/Proven\n[\s\S]*Not proven\n/);
  expect(text.replace(/\s+/g, " ")).toContain("whoever made the one could have made the other");
  expect(fetches).toBe(0);
});

test("a folder of results verifies each with the keys above them", async () => {
  const ended = await dsec(["verify", many, "--json", "--issuer", ISSUER, "--nonce", "client-nonce-1"]);
  expect(ended.code).toBe(0);
  expect(JSON.parse(ended.stdout.toString()).map(({ state }: { state: string }) => state)).toEqual([
    "verified",
    "verified",
  ]);
});

test("the attestation alone verifies, against keys in a file or at a URL", async () => {
  const jwt = join(many, "one", "attestation.jwt");
  expect((await dsec(["verify", jwt, "--jwks", join(good, "jwks.json")])).code).toBe(0);
  expect((await dsec(["verify", jwt, "--jwks", keysUrl])).code).toBe(0);
  expect(fetches).toBe(1);
});

test("whatever is wrong is refused by its code, with exit code 1", async () => {
  const cases: [what: string, words: string[], code: string][] = [
    [
      "a changed output",
      [changed("output", (at) => writeFileSync(join(at, "output-0.json"), "changed"))],
      "DIGEST_MISMATCH",
    ],
    [
      "a file that is no output",
      [changed("extra", (at) => writeFileSync(join(at, "extra.txt"), "x"))],
      "DIGEST_MISMATCH",
    ],
    [
      "a changed token",
      [
        changed("token", (at) => {
          const path = join(at, "attestation.jwt");
          const [header, payload, signature] = readFileSync(path, "utf8").split(".");
          const claims = Buffer.from(payload!, "base64url").toString().replace('"attempt":2', '"attempt":3');
          writeFileSync(path, [header, Buffer.from(claims).toString("base64url"), signature].join("."));
        }),
      ],
      "ATTESTATION_INVALID",
    ],
    [
      "no token at all",
      [changed("empty", (at) => writeFileSync(join(at, "attestation.jwt"), "\n"))],
      "ATTESTATION_INVALID",
    ],
    [
      "keys of somebody else",
      [changed("keys", (at) => writeFileSync(join(at, "jwks.json"), '{"keys":[]}'))],
      "UNKNOWN_SIGNING_KEY",
    ],
    ["another issuer", [good, "--issuer", "https://other.example"], "ATTESTATION_INVALID"],
    ["another nonce", [good, "--nonce", "not this one"], "ATTESTATION_INVALID"],
  ];
  for (const [what, words, code] of cases) {
    const ended = await dsec(["verify", ...words, "--json"]);
    expect(firstOf(ended), what).toMatchObject({ state: "refused", code });
    expect(ended.code, what).toBe(1);
  }
});

test("every file of a result is judged and told of, changed or not", async () => {
  const touched = changed("touched", (at) => {
    for (const name of ["stdout", "stderr"]) writeFileSync(join(at, name), "changed");
    for (const name of ["1.txt", "2.txt", "3.txt"]) writeFileSync(join(at, name), "added");
    symlinkSync("/etc/passwd", join(at, "0.link"));
  });
  const json = await dsec(["verify", touched, "--json"]);
  expect(firstOf(json)).toMatchObject({ state: "refused", code: "DIGEST_MISMATCH" });
  const judged = firstOf(json).judged!.map(({ path, state }) => [path, state]);
  const refused = ["0.link", "1.txt", "2.txt", "3.txt", "stderr", "stdout"];
  expect(judged.filter(([, state]) => state === "refused").map(([path]) => path)).toEqual(refused);
  expect(judged).toContainEqual(["output-0.json", "as_attested"]);
  const told = await dsec(["verify", touched]);
  for (const name of refused) expect(told.stdout.toString()).toMatch(new RegExp(`^    .*${name}\\b`, "m"));
  expect(told.stdout.toString()).toMatch(/^ {4}as attested: .*output-0\.json/m);
  expect([json.code, told.code]).toEqual([1, 1]);
});

test("one bad result among good ones fails the whole", async () => {
  const mixed = join(folder, "mixed");
  cpSync(many, mixed, { recursive: true });
  writeFileSync(join(mixed, "two", "attestation.jwt"), "a.b.c");
  const ended = await dsec(["verify", mixed]);
  expect(ended.code).toBe(1);
  expect(ended.stdout.toString()).toMatch(/✓ verified[\s\S]*✗ refused[\s\S]*1 of 2 verified/);
});

test("what has no attestation beside results that have one is refused, and hides none of the rest", async () => {
  const mixed = join(folder, "pieces");
  cpSync(many, mixed, { recursive: true });
  rmSync(join(mixed, "two", "attestation.jwt"));
  cpSync(join(many, "two"), join(mixed, "group", "three"), { recursive: true });
  writeFileSync(join(mixed, "stray.json"), "{}");
  cpSync(join(many, "one"), join(mixed, "big"), { recursive: true });
  writeFileSync(join(mixed, "big", "attestation.jwt"), "x".repeat(2 * LIMITS.jwtBytes));
  cpSync(join(many, "one"), join(mixed, "folded"), { recursive: true });
  rmSync(join(mixed, "folded", "attestation.jwt"));
  mkdirSync(join(mixed, "folded", "attestation.jwt"));
  const ended = await dsec(["verify", mixed, "--json"]);
  const results = JSON.parse(ended.stdout.toString()) as { target: string; state: string; code?: string }[];
  expect(results.map(({ target, state, code }) => [relative(mixed, target), code ?? state])).toEqual([
    ["big", "BODY_TOO_LARGE"],
    ["folded", "ATTESTATION_NOT_FOUND"],
    ["group", "ATTESTATION_NOT_FOUND"],
    ["one", "verified"],
    ["stray.json", "ATTESTATION_NOT_FOUND"],
    ["two", "ATTESTATION_NOT_FOUND"],
  ]);
  expect(ended.code).toBe(1);
  const alone = await dsec(["verify", join(mixed, "folded"), "--jwks", join(many, "jwks.json"), "--json"]);
  expect(firstOf(alone)).toMatchObject({ state: "refused", code: "ATTESTATION_NOT_FOUND" });
});

test("an attestation alone verifies with the keys beside it, and a folder in its place has a code", async () => {
  expect((await dsec(["verify", join(good, "attestation.jwt")])).code).toBe(0);
  const link = join(folder, "link-to-folder");
  symlinkSync(good, link);
  for (const words of [[link], [good, "--jwks", folder]]) {
    const { code, stderr } = await dsec(["verify", ...words]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/NOT_FOUND: .* cannot be read: EISDIR/)]);
    expect(stderr).not.toContain("    at ");
  }
});

test("what cannot be examined at all says why", async () => {
  const bare = join(folder, "bare");
  mkdirSync(bare);
  expect((await dsec(["verify", bare, "--jwks", join(good, "jwks.json")])).stderr).toMatch(
    /NOT_FOUND: .*holds no attestation\.jwt/,
  );
  expect((await dsec(["verify", join(folder, "absent")])).stderr).toMatch(
    /NOT_FOUND: .*no such file or folder/,
  );
  expect((await dsec(["verify", good, "--jwks", join(folder, "absent.json")])).stderr).toMatch(/NOT_FOUND/);
  writeFileSync(join(folder, "no-set.json"), "[]");
  expect((await dsec(["verify", good, "--jwks", join(folder, "no-set.json")])).stderr).toMatch(
    /CONFIG_INVALID: .*is no JWKS/,
  );
  writeFileSync(join(bare, "attestation.jwt"), "x".repeat(2 * LIMITS.jwtBytes));
  const big = await dsec(["verify", join(bare, "attestation.jwt"), "--jwks", join(good, "jwks.json")]);
  expect(big.stderr).toMatch(/BODY_TOO_LARGE/);
  expect(big.code).toBe(1);
});

test("a link in a stranger's folder is refused by its name, wherever it stands, and not followed", async () => {
  const inside = changed("linked", (at) => symlinkSync("/etc/passwd", join(at, "output.link")));
  const token = changed("linked-token", (at) => {
    rmSync(join(at, "attestation.jwt"));
    symlinkSync(join(good, "attestation.jwt"), join(at, "attestation.jwt"));
  });
  const beside = join(folder, "linked-result");
  cpSync(many, beside, { recursive: true });
  symlinkSync(good, join(beside, "three"));
  for (const [target, name] of [
    [inside, "output.link"],
    [token, "attestation.jwt"],
    [beside, "three"],
  ] as const) {
    const ended = await dsec(["verify", target, "--json"]);
    const results = JSON.parse(ended.stdout.toString()) as { state: string }[];
    expect(results.filter(({ state }) => state === "refused")).toMatchObject([
      { code: "DIGEST_MISMATCH", message: expect.stringContaining(`${name} is a link`) },
    ]);
    expect(ended.code).toBe(1);
  }
});

test("a file below the folder is an output, whatever its name", async () => {
  for (const name of ["jwks.json", "attestation.jwt"]) {
    const nested = changed(`nested-${name}`, (at) => {
      mkdirSync(join(at, "below"));
      writeFileSync(join(at, "below", name), "{}");
    });
    const refused = firstOf(await dsec(["verify", nested, "--json"]));
    expect(refused).toMatchObject({ state: "refused", code: "DIGEST_MISMATCH" });
  }
});

test("keys that came with the results are said to be theirs, and keys of one's own are not", async () => {
  const saved = join(folder, "keys.json");
  cpSync(join(good, "jwks.json"), saved);
  for (const [words, cameAlong] of [
    [[many], true],
    [[many, "--jwks", join(many, "jwks.json")], true],
    [[many, "--jwks", saved], false],
  ] as const) {
    const [found] = JSON.parse((await dsec(["verify", ...words, "--json"])).stdout.toString());
    expect(found.keys.came_along).toBe(cameAlong);
    const unproven = found.explanation.notProven.join("\n");
    expect(unproven.includes("the keys came with the result")).toBe(cameAlong);
  }
  const told = (await dsec(["verify", many])).stdout.toString();
  expect(told).toContain(`${join(many, "jwks.json")} came with what it verifies`);
});

test("the name of a stranger's folder cannot drive the terminal", async () => {
  const odd = join(folder, "odd\x1b[2K");
  const name = "\x1b[2K\r\n✓ all verified";
  cpSync(join(many, "one"), join(odd, `good${name}`), { recursive: true });
  cpSync(join(many, "two"), join(odd, `bad${name}`), { recursive: true });
  cpSync(join(many, "jwks.json"), join(odd, "jwks.json"));
  writeFileSync(join(odd, `bad${name}`, "extra.txt"), "x");
  const ended = await dsec(["verify", odd]);
  const told = ended.stdout.toString() + ended.stderr;
  expect(told).toContain("1 of 2 verified");
  for (const control of ["\x1b", "\r", "\n✓ all"]) expect(told).not.toContain(control);
});
