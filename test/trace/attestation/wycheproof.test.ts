import { createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { PublicKey } from "#core/wire/executors.ts";
import { nodeCrypto } from "#gateway/node/crypto-engine.ts";
import { sharedPath } from "#test/support/shared.ts";
import { decodeBase64url, encodeBase64url } from "#trace/attestation/base64url.ts";
import { importJwk, readJwks, type VerificationKey } from "#trace/attestation/keys.ts";

type Case = {
  tcId: number;
  comment: string;
  result: "valid" | "invalid";
  msg: string;
  sig: string;
  jws: string;
  flags: string[];
};
type Group = {
  publicKeyDer?: string;
  public?: unknown;
  private?: { alg?: string; kty?: string; keys?: unknown[] };
  tests: Case[];
};

const folder = sharedPath("data/vectors/wycheproof");
const groups = (file: string): Group[] => JSON.parse(readFileSync(join(folder!, file), "utf8")).testGroups;

/** What our verifier does with a compact JWS and one key, less the profile's header: the same primitives. */
async function verifiesJws(jws: string, key: VerificationKey): Promise<boolean> {
  const parts = jws.split(".");
  const [header, payload, signature] = parts.map(decodeBase64url);
  if (parts.length !== 3 || !header || !payload || !signature) return false;
  let parsed: { alg?: unknown };
  try {
    parsed = JSON.parse(new TextDecoder().decode(header));
  } catch {
    return false;
  }
  if (parsed.alg !== key.alg) return false;
  return key.verify(new TextEncoder().encode(`${parts[0]}.${parts[1]}`), signature);
}

describe.runIf(folder)("the verifier's primitives against wycheproof", () => {
  test.each([
    ["ed25519_test.json", 151, "WebCrypto", importJwk],
    ["ecdsa_secp256r1_sha256_p1363_test.json", 262, "WebCrypto", importJwk],
    ["ed25519_test.json", 151, "node:crypto", nodeCrypto.importKey],
    ["ecdsa_secp256r1_sha256_p1363_test.json", 262, "node:crypto", nodeCrypto.importKey],
  ])("%s: all %i signatures are judged rightly (%s)", async (file, count, _, importKey) => {
    const wrong: string[] = [];
    let seen = 0;
    for (const group of groups(file)) {
      // a key that is refused at the door refuses all its signatures
      const key = await importKey(jwkOf(group) as PublicKey).catch(() => null);
      for (const { tcId, comment, result, msg, sig } of group.tests) {
        seen++;
        const accepted = (await key?.verify(Buffer.from(msg, "hex"), Buffer.from(sig, "hex"))) ?? false;
        if (accepted !== (result === "valid"))
          wrong.push(`${tcId} ${comment}: ${result}, accepted: ${accepted}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(seen).toBe(count);
  });

  test("json_web_signature: ES256 as it should be, and every token of another algorithm refused", async () => {
    const wrong: string[] = [];
    let accepted = 0;
    for (const group of groups("json_web_signature_test.json")) {
      const jwk = group.public ?? group.private;
      const key = await importJwk(jwk).catch(() => null);
      if (group.private?.alg !== "ES256") expect(key, JSON.stringify(jwk)).toBeNull();
      for (const { tcId, comment, result, jws } of group.tests) {
        const verifies = key !== null && (await verifiesJws(jws, key));
        if (verifies) accepted++;
        if (verifies !== (result === "valid" && group.private?.alg === "ES256"))
          wrong.push(`${tcId} ${comment}: ${result}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(accepted).toBe(2);
  });

  test("json_web_key: no invalid set of keys verifies its token", async () => {
    const wrong: string[] = [];
    let valid = 0;
    for (const group of groups("json_web_key_test.json")) {
      const set = group.private?.keys ? group.private : { keys: [group.public ?? group.private] };
      const { keys } = await readJwks(publicSet(set as { keys: Record<string, unknown>[] }));
      for (const { tcId, comment, result, jws } of group.tests) {
        const verdicts = await Promise.all([...keys.values()].map((key) => verifiesJws(jws, key)));
        const verifies = verdicts.includes(true);
        if (result === "invalid" && verifies) wrong.push(`${tcId} ${comment}`);
        if (verifies) valid++;
      }
    }
    expect(wrong).toEqual([]);
    // the valid ones of this file are all HMAC, RSA or encryption keys: refused, as every other algorithm
    expect(valid).toBe(0);
  });
});

test("base64url has one spelling for each byte string", () => {
  for (let size = 0; size < 70; size++) {
    const bytes = crypto.getRandomValues(new Uint8Array(size));
    const text = encodeBase64url(bytes);
    expect(text).toBe(Buffer.from(bytes).toString("base64url"));
    expect(Buffer.from(decodeBase64url(text)!).equals(bytes)).toBe(true);
  }
  for (const text of [
    "A",
    "AB",
    "AAB",
    "AA==",
    "AA=",
    "AAA=",
    "A+AA",
    "A/AA",
    "AA A",
    "AAAA\n",
    "ÄAAA",
    "AAAAA",
    "=",
    "AA\u{1F600}",
  ]) {
    expect(decodeBase64url(text), text).toBeNull();
  }
});

function publicSet({ keys }: { keys: Record<string, unknown>[] }) {
  return { keys: keys.map(({ d: _, ...key }) => key) };
}

/** Not every group brings its key as a JWK, but every one as DER. */
function jwkOf({ publicKeyDer }: Group): unknown {
  return createPublicKey({ key: Buffer.from(publicKeyDer!, "hex"), format: "der", type: "spki" }).export({
    format: "jwk",
  });
}
