/**
 * Call signatures: the gateway's word that one sandbox may make one call (docs/tool-calls.md). Upstream they travel
 * as a JWS of typ dsec-call+jwt, and as an HTTP Message Signature (RFC 9421) over the request that carries it.
 */
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { sha256 } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Target } from "#core/policy/url.ts";
import { TYP } from "#core/wire/attestations.ts";
import { type CallClaims, CallClaimsSchema } from "#core/wire/calls.ts";
import { readJws, readObject, signInput, signingInput } from "#trace/attestation/jws.ts";
import { importJwk } from "#trace/attestation/keys.ts";
import type { CryptoEngine, KeyRing } from "../ports.ts";

/** What is signed of a call: everything but when and by whom. */
export type BoundCall = Omit<CallClaims, "iss" | "jti" | "iat" | "exp">;

/** Whose signatures, and when. `sha256` hashes faster than WebCrypto where the runtime has something that does. */
export type CallSigning = {
  keys: KeyRing;
  issuer: string;
  /** Milliseconds since the epoch. */
  nowMs: number;
  sha256?: CryptoEngine["sha256"] | undefined;
};

/** `digest` names the call in the record: SHA-256 of what is signed, which an ES256 signature does not change. */
export type CallSignature = { jws: string; digest: Digest; claims: CallClaims };

/** All of a call signature but the signing, which takes longest. */
export type CallDraft = Pick<CallSignature, "digest"> & { sign(): Promise<CallSignature> };

/** A fresh signature over the call, good for `callSignatureTtlS`. */
export async function signCall(call: BoundCall, by: CallSigning): Promise<CallSignature> {
  return (await draftCall(call, by)).sign();
}

/** What `signCall` would sign now, for who records the call before its signature is there. */
export async function draftCall(call: BoundCall, by: CallSigning): Promise<CallDraft> {
  const signer = by.keys.current();
  const iat = Math.floor(by.nowMs / 1000);
  const exp = iat + LIMITS.callSignatureTtlS;
  const claims = { iss: by.issuer, jti: crypto.randomUUID(), iat, exp, ...call };
  const header = { alg: signer.alg, kid: signer.kid, typ: TYP.call };
  const input = signingInput(header, JSON.stringify(claims));
  const digest = await (by.sha256 ?? sha256)(input);
  const sign = async () => ({ jws: await signInput(input, (bytes) => signer.sign(bytes)), digest, claims });
  return { digest, sign };
}

/**
 * Whether a signature that comes back is ours, is in time and is for exactly this call. Clocks may differ on one side
 * only: `iat` may lie `clockLeewayS` ahead, and `exp` is final.
 *
 * CALL_SIGNATURE_INVALID names the member that differs; CALL_SIGNATURE_EXPIRED.
 */
export async function checkCallSignature(
  jws: string,
  call: BoundCall,
  by: CallSigning,
): Promise<CallSignature> {
  const invalid = (why: string) =>
    new DsecError("CALL_SIGNATURE_INVALID", `call ${call.seq} of lease ${call.sub}: its signature ${why}`);
  const token = readJws(jws, {
    typ: TYP.call,
    maxBytes: LIMITS.callSignatureChars,
    what: "call signature",
    invalid: "CALL_SIGNATURE_INVALID",
  });
  const jwk = by.keys.jwks().keys.find(({ kid }) => kid === token.header.kid);
  if (jwk === undefined) throw invalid("is of a key that is not this gateway's");
  const key = await importJwk(jwk);
  if (key.alg !== token.header.alg || !(await key.verify(token.signed, token.signature))) {
    throw invalid("does not verify: it was changed, or made by somebody else");
  }
  const read = CallClaimsSchema.safeParse(
    readObject(token.payload, "call signature", "CALL_SIGNATURE_INVALID"),
  );
  if (!read.success) throw invalid(`has a wrong ${read.error.issues[0]?.path.join(".") || "form"}`);
  const claims = read.data;
  if (claims.iss !== by.issuer) throw invalid(`was issued by ${claims.iss}`);
  for (const member of Object.keys(call) as (keyof BoundCall)[]) {
    if (claims[member] !== call[member]) throw invalid(`is for another call: ${member} differs`);
  }
  if (claims.exp - claims.iat > LIMITS.callSignatureTtlS) throw invalid("is valid for too long");
  if (claims.iat * 1000 > by.nowMs + LIMITS.clockLeewayS * 1000) throw invalid("comes from the future");
  if (claims.exp * 1000 <= by.nowMs) {
    throw new DsecError(
      "CALL_SIGNATURE_EXPIRED",
      `call ${call.seq} of lease ${call.sub}: its signature expired; ask for a new one with the next seq`,
    );
  }
  const digest = await (by.sha256 ?? sha256)(jws.slice(0, jws.lastIndexOf(".")));
  return { jws, digest, claims };
}

/** The members that bind the URL: the whole of it as it is sent, after the URL standard made it canonical. */
export async function boundUrl(
  { url, query }: Target,
  hash: CryptoEngine["sha256"] = sha256,
): Promise<Pick<CallClaims, "htu" | "htq">> {
  const htu = query === "" ? url : url.slice(0, url.length - query.length);
  return { htu, htq: query === "" ? NO_QUERY : await hash(query.slice(1)) };
}

/** SHA-256 of no bytes. */
const NO_QUERY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/** RFC 9421 parameters: covered components, label and tag. docs/tool-calls.md tells verifiers the same. */
const COMPONENTS = '("@method" "@target-uri" "content-digest" "dsec-call-signature")';
const LABEL = "dsec";
const TAG = "dsec-call";
/** Names of RFC 9421 section 6.2.2 for what JOSE calls EdDSA and ES256. */
const HTTP_ALGORITHM = { EdDSA: "ed25519", ES256: "ecdsa-p256-sha256" } as const;

/** The fields that a signed request carries: the call signature, the body's digest, and the message signature over both. */
export async function signatureFields(
  { jws, claims }: CallSignature,
  url: string,
  keys: KeyRing,
): Promise<[name: string, value: string][]> {
  const signer = keys.current();
  const parameters = `${COMPONENTS};created=${claims.iat};expires=${claims.exp};nonce="${claims.jti}";keyid="${signer.kid}";alg="${HTTP_ALGORITHM[signer.alg]}";tag="${TAG}"`;
  const base = [
    `"@method": ${claims.htm}`,
    `"@target-uri": ${url}`,
    `"content-digest": ${claims.content_digest}`,
    `"dsec-call-signature": ${jws}`,
    `"@signature-params": ${parameters}`,
  ].join("\n");
  const signature = await signer.sign(new TextEncoder().encode(base));
  return [
    ["Content-Digest", claims.content_digest],
    ["DSEC-Call-Signature", jws],
    ["Signature-Input", `${LABEL}=${parameters}`],
    ["Signature", `${LABEL}=:${btoa(String.fromCharCode(...signature))}:`],
  ];
}
