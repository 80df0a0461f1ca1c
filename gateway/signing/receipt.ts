import { merkleLeaf } from "#core/merkle.ts";
import { TYP } from "#core/wire/attestations.ts";
import type { ReceiptClaims } from "#core/wire/calls.ts";
import { signJws } from "#trace/attestation/jws.ts";
import type { KeyRing } from "../ports.ts";

/**
 * What came of a call, in the gateway's name: a JWS of typ dsec-receipt+jwt, and its hash as a leaf of the attempt's
 * Merkle tree (RFC 6962 over the compact form's bytes).
 */
export async function signReceipt(
  claims: ReceiptClaims,
  keys: KeyRing,
): Promise<{ jwt: string; leaf: Uint8Array }> {
  const signer = keys.current();
  const header = { alg: signer.alg, kid: signer.kid, typ: TYP.receipt };
  const jwt = await signJws(header, JSON.stringify(claims), (bytes) => signer.sign(bytes));
  return { jwt, leaf: await merkleLeaf(new TextEncoder().encode(jwt)) };
}
