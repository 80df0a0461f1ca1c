import { DsecError, type ErrorCode } from "#core/errors.ts";
import { canonicalJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Enrolment, EnrolRequest } from "#core/wire/executors.ts";
import { API_KEY } from "#core/wire/keys.ts";
import { decodeBase64url, encodeBase64url } from "./base64url.ts";
import type { Sign } from "./jws.ts";
import { importJwk } from "./keys.ts";

/**
 * An executor's enrolment as it is sent: signed by the key that it names, for the API key that it comes with and at the
 * gateway's time, so that nobody can enrol another's public key, nor what was enrolled once again later.
 */
export async function signEnrolment(
  enrolment: Enrolment,
  { apiKey, nowMs, sign }: { apiKey: string; nowMs: number; sign: Sign },
): Promise<EnrolRequest> {
  // A malformed key is refused as such, whatever is signed.
  const keyId = `key_${API_KEY.exec(apiKey)?.[1] ?? ""}`;
  const signed = { ...enrolment, iat: Math.floor(nowMs / 1000) };
  return { ...signed, signature: encodeBase64url(await sign(signedBytes(signed, keyId))) };
}

/**
 * @throws ENROLMENT_UNPROVEN where the public key did not sign it, or anybody could sign for it; ENROLMENT_UNTIMELY where
 *   it did so too long ago, or in the future
 */
export async function verifyEnrolment(
  { signature, ...signed }: EnrolRequest,
  { keyId, nowMs }: { keyId: string; nowMs: number },
): Promise<void> {
  const refused = (code: ErrorCode, why: string, cause?: unknown) =>
    new DsecError(code, `public key ${signed.public_key.x}: ${why}`, { cause });
  const key = await importJwk(signed.public_key).catch((cause: Error) => {
    throw refused("ENROLMENT_UNPROVEN", cause.message, cause);
  });
  const bytes = decodeBase64url(signature);
  if (bytes === null || !(await key.verify(signedBytes(signed, keyId), bytes))) {
    const why = "it did not sign this enrolment for the API key that brought it (docs/attestation.md)";
    throw refused("ENROLMENT_UNPROVEN", why);
  }
  const ageS = nowMs / 1000 - signed.iat;
  if (ageS > LIMITS.enrolmentAgeS + LIMITS.clockLeewayS || ageS < -LIMITS.clockLeewayS) {
    const when = ageS < 0 ? "in the future" : `more than ${LIMITS.enrolmentAgeS} s ago`;
    const why = `it signed this enrolment ${when}, for here it is ${new Date(nowMs).toISOString()}: sign another by the Date header of this answer`;
    throw refused("ENROLMENT_UNTIMELY", why);
  }
}

/** RFC 8785 JSON that nothing else we sign can be: tokens begin with base64url, not with a brace. */
function signedBytes(signed: Omit<EnrolRequest, "signature">, keyId: string): Uint8Array {
  return new TextEncoder().encode(canonicalJson({ typ: "dsec-enrolment", key_id: keyId, ...signed }));
}
