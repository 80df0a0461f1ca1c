import { randomBytes } from "node:crypto";
import type { Template } from "pkcs11js";
import { encodeBase64url } from "#trace/attestation/base64url.ts";
import { jwkThumbprint, type PublicJwk, readJwk } from "#trace/attestation/keys.ts";
import type { Signer } from "../ports.ts";
import { proveSigner } from "../signing/webcrypto-signer.ts";
import { loadLibrary, type Session, SessionPool, unusable } from "./pkcs11-sessions.ts";

export type Pkcs11Token = {
  /**
   * The key pair of this label. CONFIG_INVALID where the token has none, two, or one that can be read out; with
   * `create` a missing one is made inside the token, where its private half stays.
   */
  signer(key: { label: string; alg: Signer["alg"]; create?: boolean }): Promise<Signer>;
  /** Closes the sessions; signers of the token answer SIGNER_UNAVAILABLE from then on. */
  close(): void;
};

/**
 * A token of a hardware security module, spoken to through its PKCS#11 library (Cryptoki 2.40; EdDSA as of 3.0).
 * Each signature in progress has a session of its own, because a session holds one operation. After the module was
 * restarted or lost its sessions the next signature logs in again.
 *
 * SIGNER_UNAVAILABLE: library, token or PIN do not work; the message says which and what to do, and never the PIN.
 * @param config `library` is the path of the vendor's .so, `token` the token's label
 */
export async function openPkcs11Token(config: {
  library: string;
  token: string;
  pin: string;
  sessions?: number;
}): Promise<Pkcs11Token> {
  const cryptoki = await loadLibrary(config.library);
  let pool: SessionPool;
  try {
    pool = new SessionPool(cryptoki.module, config);
  } catch (error) {
    cryptoki.release();
    throw error;
  }
  let open = true;
  return {
    async signer({ label, alg, create = false }) {
      const publicJwk = await pool.use(async (session) => {
        if (create && !hasKey(session, label)) generateKey(session, label, alg);
        return readKey(session, label, alg);
      });
      const signer: Signer = {
        alg,
        publicJwk,
        kid: await jwkThumbprint(publicJwk),
        sign: (bytes) => pool.use((session) => session.sign(label, alg, bytes)),
      };
      await proveSigner(signer);
      return signer;
    },
    close() {
      if (!open) return;
      open = false;
      pool.close();
      cryptoki.release();
    },
  };
}

/** Cryptoki 3.0 names that pkcs11js does not have yet. */
const CKK_EC_EDWARDS = 0x40;
const CKM_EC_EDWARDS_KEY_PAIR_GEN = 0x1055;

/** DER of the curve's object identifier: id-Ed25519 (RFC 8410) and secp256r1 (RFC 5480). */
const CURVE = {
  EdDSA: { parameters: Buffer.from("06032b6570", "hex"), keyType: CKK_EC_EDWARDS, pointBytes: 32 },
  ES256: {
    parameters: Buffer.from("06082a8648ce3d030107", "hex"),
    keyType: 0x03 /* CKK_EC */,
    pointBytes: 65,
  },
} as const;

function hasKey(session: Session, label: string): boolean {
  const { CKO_PRIVATE_KEY, CKO_PUBLIC_KEY } = session.api;
  return session.find(label, CKO_PRIVATE_KEY).length + session.find(label, CKO_PUBLIC_KEY).length > 0;
}

/** Makes a pair inside the token. No await between the look and the making: one process makes one key. */
function generateKey({ api, cryptoki, handle }: Session, label: string, alg: Signer["alg"]): void {
  const { parameters, keyType } = CURVE[alg];
  const shared: Template = [
    { type: api.CKA_LABEL, value: label },
    { type: api.CKA_ID, value: randomBytes(16) },
    { type: api.CKA_KEY_TYPE, value: keyType },
    { type: api.CKA_TOKEN, value: true },
  ];
  cryptoki.C_GenerateKeyPair(
    handle,
    { mechanism: alg === "EdDSA" ? CKM_EC_EDWARDS_KEY_PAIR_GEN : api.CKM_EC_KEY_PAIR_GEN },
    [...shared, { type: api.CKA_VERIFY, value: true }, { type: api.CKA_EC_PARAMS, value: parameters }],
    [
      ...shared,
      { type: api.CKA_PRIVATE, value: true },
      { type: api.CKA_SENSITIVE, value: true },
      { type: api.CKA_EXTRACTABLE, value: false },
      { type: api.CKA_SIGN, value: true },
    ],
  );
}

function readKey(session: Session, label: string, alg: Signer["alg"]): PublicJwk {
  const { api } = session;
  const privateKey = session.findOne(label, api.CKO_PRIVATE_KEY, alg);
  if (session.read(privateKey, api.CKA_EXTRACTABLE)[0] !== 0) {
    throw unusable(label, "its private half can be read out of the token; make one inside it with create");
  }
  const publicKey = session.findOne(label, api.CKO_PUBLIC_KEY, alg);
  const parameters = session.read(publicKey, api.CKA_EC_PARAMS);
  if (!parameters.equals(CURVE[alg].parameters)) throw unusable(label, `it is not a key for ${alg}`);
  const point = ecPoint(session.read(publicKey, api.CKA_EC_POINT), CURVE[alg].pointBytes);
  if (!point) throw unusable(label, "its public point is not one of its curve");
  const jwk =
    alg === "EdDSA"
      ? { kty: "OKP", crv: "Ed25519", x: encodeBase64url(point) }
      : {
          kty: "EC",
          crv: "P-256",
          x: encodeBase64url(point.subarray(1, 33)),
          y: encodeBase64url(point.subarray(33)),
        };
  return readJwk(jwk).publicJwk;
}

/** CKA_EC_POINT is a DER OCTET STRING around the point; some modules leave the header out. */
function ecPoint(value: Buffer, size: number): Buffer | null {
  if (value.length === size) return value;
  return value.length === size + 2 && value[0] === 0x04 && value[1] === size ? value.subarray(2) : null;
}
