/// <reference types="vite/types/importMeta.d.ts" />
import { expect, test } from "vitest";
import { encodeBase64url } from "#trace/attestation/base64url.ts";
import type { PublicJwk } from "#trace/attestation/keys.ts";
import { importJwk } from "#trace/attestation/keys.ts";

// On Cloudflare WebCrypto is another library than Node's: the same vectors judge it there. Where they are missing on
// CI, test/trace/attestation/wycheproof.test.ts fails.
type Group = {
  publicKey: { pk?: string; wx?: string; wy?: string };
  tests: { tcId: number; comment: string; result: "valid" | "invalid"; msg: string; sig: string }[];
};

const files = import.meta.glob<{ default: { testGroups: Group[] } }>(
  "../../../shared/data/vectors/wycheproof/{ed25519,ecdsa_secp256r1_sha256_p1363}_test.json",
);

test.runIf(Object.keys(files).length > 0)(
  "workerd's WebCrypto judges every signature of wycheproof rightly",
  async () => {
    const wrong: string[] = [];
    let seen = 0;
    for (const [file, load] of Object.entries(files)) {
      for (const { publicKey, tests } of (await load()).default.testGroups) {
        const key = await importJwk(jwkOf(publicKey)).catch(() => null);
        for (const { tcId, comment, result, msg, sig } of tests) {
          seen++;
          const accepted = (await key?.verify(bytesOf(msg), bytesOf(sig))) ?? false;
          if (accepted !== (result === "valid"))
            wrong.push(`${file} ${tcId} ${comment}: ${result}, accepted: ${accepted}`);
        }
      }
    }
    expect(wrong).toEqual([]);
    expect(seen).toBe(151 + 262);
  },
);

function jwkOf({ pk, wx, wy }: Group["publicKey"]): PublicJwk {
  if (pk !== undefined) return { kty: "OKP", crv: "Ed25519", x: encodeBase64url(bytesOf(pk)) };
  // the file writes coordinates as integers: with a sign byte in front, or without leading zeros
  const coordinate = (hex = "") => encodeBase64url(bytesOf(hex.padStart(64, "0").slice(-64)));
  return { kty: "EC", crv: "P-256", x: coordinate(wx), y: coordinate(wy) };
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
}
