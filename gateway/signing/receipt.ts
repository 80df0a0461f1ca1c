import type { Digest } from "#core/ids.ts";
import { TYP } from "#core/wire/attestations.ts";
import type { ReceiptClaims } from "#core/wire/calls.ts";
import { signJws } from "#trace/attestation/jws.ts";
import type { CryptoEngine, KeyRing } from "../ports.ts";

/**
 * What came of a call, in the gateway's name: a JWS of typ dsec-receipt+jwt, and its hash as a leaf of the attempt's
 * Merkle tree (RFC 6962 over the compact form's bytes).
 */
export async function signReceipt(
  claims: ReceiptClaims,
  keys: KeyRing,
  hash: CryptoEngine["sha256"],
): Promise<{ jwt: string; leaf: Digest }> {
  const signer = keys.current();
  const header = { alg: signer.alg, kid: signer.kid, typ: TYP.receipt };
  const jwt = await signJws(header, JSON.stringify(claims), (bytes) => signer.sign(bytes));
  // A compact JWS is ASCII, so that the text after U+0000 has the bytes of the leaf after 0x00.
  return { jwt, leaf: await hash(`\0${jwt}`) };
}
