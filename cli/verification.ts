/**
 * Verifies attestations and the files beside them with nothing but a JWKS: what `dsec verify` does, and what the
 * demo does with every result. Nothing is fetched.
 */
import { createHash } from "node:crypto";
import { createReadStream, lstatSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { decodeProtectedHeader } from "jose";
import { DsecError, type ErrorCode } from "#core/errors.ts";
import { digestOf, parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import { type GivenFile, verifyBundle } from "#trace/attestation/bundle.ts";
import { type Explanation, explainAttestation } from "#trace/attestation/explain.ts";
import type { KeySource } from "#trace/attestation/verify.ts";

/** Names that an attestation and its keys have in a folder. */
export const ATTESTATION_FILE = "attestation.jwt";
export const JWKS_FILE = "jwks.json";

export type Verification =
  | {
      state: "verified";
      target: string;
      claims: AttestationClaims;
      explanation: Explanation;
      files: string[];
    }
  | { state: "refused"; target: string; code: ErrorCode; message: string };

export type Trust = {
  jwks: KeySource;
  /** Null where trust in the keys alone is meant. */
  issuer: string | null;
  nonce?: string | undefined;
};

/** An attestation and the files to compare with it; a refusal is a result, not an exception. */
export async function verify(
  target: string,
  bundle: { jwt: string; files: GivenFile[] },
  trust: Trust,
): Promise<Verification> {
  try {
    const { claims, matched, notGiven } = await verifyBundle({ ...bundle, ...trust, now: Date.now() });
    const explanation = explainAttestation(claims, {
      kid: decodeProtectedHeader(bundle.jwt).kid ?? "",
      issuerChecked: trust.issuer !== null,
      nonceChecked: trust.nonce !== undefined,
      matched,
      notGiven,
    });
    return { state: "verified", target, claims, explanation, files: matched.map(({ path }) => path) };
  } catch (error) {
    return refusal(target, error);
  }
}

function refusal(target: string, error: unknown): Verification {
  if (!(error instanceof DsecError)) throw error;
  return { state: "refused", target, code: error.code, message: error.message };
}

/**
 * A folder with an attestation, where every other file is one of its outputs, but for keys right beside it. A link is
 * refused: it would stand for a file that whoever handed the folder over does not hold.
 */
export async function verifyFolder(folder: string, trust: Trust): Promise<Verification> {
  const own = [ATTESTATION_FILE, JWKS_FILE].map((name) => join(folder, name));
  const files: GivenFile[] = [];
  try {
    for (const path of regularFiles(folder))
      if (!own.includes(path)) files.push(await givenFile(folder, path));
  } catch (error) {
    return refusal(folder, error);
  }
  return verify(folder, { jwt: readJwt(join(folder, ATTESTATION_FILE)), files }, trust);
}

/** The folders with an attestation: the given one, or else those right below it; and links there, which are not looked behind. */
export function attestedFolders(folder: string): string[] {
  if (isThere(join(folder, ATTESTATION_FILE))) return [folder];
  return readdirSync(folder, { withFileTypes: true })
    .filter(
      (entry) =>
        entry.isSymbolicLink() ||
        (entry.isDirectory() && isThere(join(folder, entry.name, ATTESTATION_FILE))),
    )
    .map((entry) => join(folder, entry.name))
    .sort();
}

/** `jwks.json` beside the path or in a folder above it. */
export function findJwksFile(path: string): string | undefined {
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    const candidate = join(folder, JWKS_FILE);
    if (isFile(candidate)) return candidate;
    if (folder === dirname(folder)) return undefined;
  }
}

export function readJwksFile(path: string): { keys: unknown[] } {
  const value = parseJson(readBounded(path, LIMITS.jwksBytes), path);
  if (typeof value === "object" && value !== null && "keys" in value && Array.isArray(value.keys)) {
    return { keys: value.keys };
  }
  throw new DsecError("CONFIG_INVALID", `${path} is no JWKS: it has no "keys" list (RFC 7517 section 5)`);
}

export function readJwt(path: string): string {
  return readBounded(path, LIMITS.jwtBytes).toString("latin1").trim();
}

function readBounded(path: string, maxBytes: number): Buffer {
  let size: number;
  try {
    size = lstatSync(path).size;
  } catch (cause) {
    throw new DsecError("NOT_FOUND", `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
  // a trailing newline is a file's, not the token's
  if (size > maxBytes + 2)
    throw new DsecError("BODY_TOO_LARGE", `${path} has ${size} bytes; at most ${maxBytes} are read`);
  return readFileSync(path);
}

/** Links are not followed: a folder from a stranger must not make us read elsewhere. */
function regularFiles(folder: string): string[] {
  if (lstatSync(folder).isSymbolicLink()) throw noOutput(folder, "a link");
  const paths: string[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) paths.push(...regularFiles(path));
    else if (entry.isFile()) paths.push(path);
    else throw noOutput(path, entry.isSymbolicLink() ? "a link" : "no regular file");
    if (paths.length > 2 * LIMITS.outputFiles) {
      throw new DsecError("INVALID_REQUEST", `${folder} holds more files than an attestation can name`);
    }
  }
  return paths.sort();
}

function noOutput(path: string, what: string): DsecError {
  return new DsecError(
    "DIGEST_MISMATCH",
    `${path} is ${what}, which no attestation can name; put the file itself there, or take it away`,
  );
}

async function givenFile(folder: string, path: string): Promise<GivenFile> {
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of createReadStream(path)) {
    hash.update(chunk);
    size += chunk.length;
  }
  return { path: relative(folder, path), digest: digestOf(hash.digest()), size };
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function isFile(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
