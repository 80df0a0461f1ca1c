import { DsecError } from "#core/errors.ts";
import { canonicalJson } from "#core/json.ts";
import type { Enrolment, EnrolRequest } from "#core/wire/executors.ts";
import { API_KEY } from "#core/wire/keys.ts";
import { decodeBase64url, encodeBase64url } from "./base64url.ts";
import type { Sign } from "./jws.ts";
import { importJwk } from "./keys.ts";

/**
 * An executor's enrolment as it is sent: signed by the key that it names, and for the API key that it comes with, so that
 * nobody can enrol another's public key. There is no time in it: an executor learns the gateway's from the answer.
 */
export async function signEnrolment(enrolment: Enrolment, apiKey: string, sign: Sign): Promise<EnrolRequest> {
  // A malformed key is refused as such, whatever is signed.
  const keyId = `key_${API_KEY.exec(apiKey)?.[1] ?? ""}`;
  return { ...enrolment, signature: encodeBase64url(await sign(signedBytes(enrolment, keyId))) };
}

/** @throws ENROLMENT_UNPROVEN where the public key did not sign it, or anybody could sign for it */
export async function verifyEnrolment(
  { signature, ...enrolment }: EnrolRequest,
  keyId: string,
): Promise<void> {
  const refused = (why: string, cause?: unknown) =>
    new DsecError("ENROLMENT_UNPROVEN", `public key ${enrolment.public_key.x}: ${why}`, { cause });
  const key = await importJwk(enrolment.public_key).catch((cause: Error) => {
    throw refused(cause.message, cause);
  });
  const bytes = decodeBase64url(signature);
  if (bytes === null || !(await key.verify(signedBytes(enrolment, keyId), bytes)))
    throw refused("it did not sign this enrolment for the API key that brought it (docs/attestation.md)");
}

/** RFC 8785 JSON that nothing else we sign can be: tokens begin with base64url, not with a brace. */
function signedBytes(enrolment: Enrolment, keyId: string): Uint8Array {
  return new TextEncoder().encode(canonicalJson({ typ: "dsec-enrolment", key_id: keyId, ...enrolment }));
}
