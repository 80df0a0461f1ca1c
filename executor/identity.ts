import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from "node:crypto";
import { link, mkdir, open, readFile, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { TYP } from "#core/wire/attestations.ts";
import { type PublicKey, PublicKeySchema } from "#core/wire/executors.ts";

/** An executor's Ed25519 key: it authenticates each request and signs evidence. */
export type Identity = {
  publicKey: PublicKey;
  /** The raw Ed25519 signature (RFC 8032), 64 bytes. */
  sign(bytes: Uint8Array): Promise<Uint8Array>;
  /** A JWT for one gateway, valid for `LIMITS.executorTokenTtlS` from `nowMs`, which is the gateway's time. */
  token(executorId: string, audience: string, nowMs: number): string;
};

/**
 * Opens the key in the folder, making it once. A key file that is there but unusable is refused, never replaced:
 * a new key would be a new executor, and evidence of the old one could not be signed any more.
 */
export async function openIdentity(directory: string): Promise<Identity> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const path = join(directory, "identity.jwk");
  let text = await readKeyFile(path);
  if (text === null) {
    await createKeyFile(path, directory);
    text = (await readKeyFile(path))!;
  }
  return identityOf(importPrivateKey(text, path));
}

function identityOf(key: KeyObject): Identity {
  const { kty, crv, x } = createPublicKey(key).export({ format: "jwk" });
  const publicKey = PublicKeySchema.parse({ kty, crv, x });
  const header = base64url(JSON.stringify({ alg: "EdDSA", typ: TYP.executor }));
  return {
    publicKey,
    sign: async (bytes) => sign(null, bytes, key),
    token(executorId, audience, nowMs) {
      const iat = Math.floor(nowMs / 1000);
      const claims = {
        iss: executorId,
        aud: audience,
        iat,
        exp: iat + LIMITS.executorTokenTtlS,
        jti: randomBytes(12).toString("base64url"),
      };
      const signed = `${header}.${base64url(JSON.stringify(claims))}`;
      return `${signed}.${sign(null, Buffer.from(signed), key).toString("base64url")}`;
    },
  };
}

async function readKeyFile(path: string): Promise<string | null> {
  try {
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0) {
      throw new DsecError(
        "CONFIG_INVALID",
        `executor key ${path} can be read by other users (mode ${(mode & 0o777).toString(8)}); run chmod 600 on it`,
      );
    }
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** Writes a new key beside its place and links it in: link(2) fails where another start was first, whose key counts. */
async function createKeyFile(path: string, directory: string): Promise<void> {
  const { privateKey } = generateKeyPairSync("ed25519");
  const temporary = `${path}.${randomBytes(6).toString("hex")}`;
  const file = await open(temporary, "wx", 0o600);
  try {
    await file.writeFile(`${JSON.stringify(privateKey.export({ format: "jwk" }))}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  try {
    await link(temporary, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    await unlink(temporary);
  }
  const folder = await open(directory, "r");
  await folder.sync().finally(() => folder.close());
}

function importPrivateKey(text: string, path: string): KeyObject {
  try {
    const key = createPrivateKey({ key: JSON.parse(text), format: "jwk" });
    if (key.asymmetricKeyType !== "ed25519") throw new Error(`it is a key for ${key.asymmetricKeyType}`);
    return key;
  } catch {
    // The cause may quote the file, which is a secret.
    throw new DsecError(
      "CONFIG_INVALID",
      `executor key ${path} is not an Ed25519 private JWK; restore it, or move it away to enrol as a new executor`,
    );
  }
}

function base64url(text: string): string {
  return Buffer.from(text).toString("base64url");
}
