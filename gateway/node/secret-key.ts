import { randomBytes } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { DsecError } from "#core/errors.ts";
import type { SecretCipher } from "../ports.ts";
import { createSecretCipher, SECRET_KEY_BYTES } from "../proxy/secret-cipher.ts";

/**
 * The cipher whose key lies in the folder as `secrets.key`, mode 0600, made at the first start. CONFIG_INVALID where
 * others can read it or it is damaged; it is never replaced, because every secret in the database needs it.
 */
export async function openSecretKey(folder: string): Promise<SecretCipher> {
  const path = join(folder, "secrets.key");
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (statSync(path, { throwIfNoEntry: false }) === undefined) create(folder, path);
    const mode = statSync(path).mode & 0o777;
    if (mode & 0o077) {
      throw new DsecError(
        "CONFIG_INVALID",
        `key for secrets ${path} has mode ${mode.toString(8)}: others can read it; chmod 600 ${path}`,
      );
    }
    const key = readFileSync(path);
    if (key.length !== SECRET_KEY_BYTES) {
      throw new DsecError("CONFIG_INVALID", `key for secrets ${path} is damaged; restore it from a backup`);
    }
    return await createSecretCipher(key);
  } catch (cause) {
    if (cause instanceof DsecError) throw cause;
    const { code, syscall } = cause as NodeJS.ErrnoException;
    throw new DsecError("CONFIG_INVALID", `key for secrets ${path}: ${syscall} failed with ${code}`, {
      cause,
    });
  }
}

/** Whole under another name, then linked: of two processes that start at once, one makes the key. */
function create(folder: string, path: string): void {
  const draft = join(folder, `.secrets-${process.pid}-${randomBytes(4).toString("hex")}`);
  try {
    const file = openSync(draft, "wx", 0o600);
    try {
      writeSync(file, randomBytes(SECRET_KEY_BYTES));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    linkSync(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  // The name must be as durable as the bytes before anything is sealed: after a power cut another key would be made.
  const directory = openSync(folder, "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
