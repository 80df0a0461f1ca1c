import { joined } from "#core/bytes.ts";
import { DsecError } from "#core/errors.ts";
import { sha256 } from "#core/json.ts";
import { decodeBase64url, encodeBase64url } from "#trace/attestation/base64url.ts";
import type { SecretCipher } from "../ports.ts";

export const SECRET_KEY_BYTES = 32;
/** Names the form, so that another one can follow. Then nonce and ciphertext with its tag, in base64url. */
const FORM = "a256gcm";
const NONCE_BYTES = 12;

/**
 * AES-256-GCM (NIST SP 800-38D) with a random 96-bit nonce for each secret; what the secret belongs to is
 * authenticated with it, so that a row that is moved or altered in the database does not open.
 * @param key 32 bytes, imported non-extractable; CONFIG_INVALID for any other size
 */
export async function createSecretCipher(key: Uint8Array): Promise<SecretCipher> {
  if (key.length !== SECRET_KEY_BYTES) {
    throw new DsecError(
      "CONFIG_INVALID",
      `the key for secrets has ${key.length} bytes; it must be ${SECRET_KEY_BYTES} random ones`,
    );
  }
  const encoder = new TextEncoder();
  const imported = await crypto.subtle.importKey("raw", key as BufferSource, "AES-GCM", false, [
    "encrypt",
    "decrypt",
  ]);
  const parameters = (iv: Uint8Array, context: string) => ({
    name: "AES-GCM",
    iv: iv as BufferSource,
    additionalData: encoder.encode(context),
  });
  return {
    // A digest of 256 random bits can only be compared.
    keyDigest: await sha256(joined([encoder.encode("dsec key for secrets\0"), key])),
    async seal(value, context) {
      const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES));
      const sealed = await crypto.subtle.encrypt(parameters(nonce, context), imported, encoder.encode(value));
      return `${FORM}.${encodeBase64url(nonce)}.${encodeBase64url(new Uint8Array(sealed))}`;
    },
    async open(sealed, context) {
      const [form, nonce, bytes] = sealed.split(".");
      try {
        if (form !== FORM) throw new Error("another form");
        const iv = decodeBase64url(nonce ?? "")!;
        const opened = await crypto.subtle.decrypt(
          parameters(iv, context),
          imported,
          decodeBase64url(bytes ?? "") as BufferSource,
        );
        return new TextDecoder().decode(opened);
      } catch {
        // without the cause: nothing about a secret is worth a word of detail
        throw new DsecError(
          "CONFIG_INVALID",
          "a secret does not open: the gateway's key for secrets is not the one it was sealed with; set it again",
        );
      }
    },
  };
}
