/**
 * Verifies attestations and the files beside them with nothing but a JWKS: what `dsec verify` does, and what the
 * demo does with every result. Nothing is fetched.
 */
import { createHash } from "node:crypto";
import { createReadStream, lstatSync, readdirSync, type Stats } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { decodeProtectedHeader } from "jose";
import { DsecError, type ErrorCode } from "#core/errors.ts";
import { digestOf, parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import {
  FilesRefused,
  type GivenFile,
  type JudgedFile,
  type UnreadFile,
  verifyBundle,
} from "#trace/attestation/bundle.ts";
import { type Explanation, explainAttestation } from "#trace/attestation/explain.ts";
import type { KeySource } from "#trace/attestation/verify.ts";
import { readGivenFile } from "./given-file.ts";

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
      /** Every file that was compared with it. */
      judged: JudgedFile[];
    }
  | {
      state: "refused";
      target: string;
      code: ErrorCode;
      message: string;
      /** Every file that was compared with it: none where the attestation itself is refused. */
      judged: JudgedFile[];
    };

export type Trust = {
  jwks: KeySource;
  /** Null where trust in the keys alone is meant. */
  issuer: string | null;
  nonce?: string | undefined;
};

/** An attestation and the files to compare with it; a refusal is a result, not an exception. */
export async function verify(
  target: string,
  bundle: { jwt: string; files: (GivenFile | UnreadFile)[] },
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
    const files = matched.map(({ path }) => path);
    const judged = files.map((path): JudgedFile => ({ path, state: "as_attested" }));
    return { state: "verified", target, claims, explanation, files, judged };
  } catch (error) {
    return refusal(target, error);
  }
}

function refusal(target: string, error: unknown): Verification {
  const judged = error instanceof FilesRefused ? error.judged : [];
  if (error instanceof DsecError) {
    return { state: "refused", target, code: error.code, message: error.message, judged };
  }
  if (isFileError(error)) {
    const message = `it cannot be read: ${error.message}`;
    return { state: "refused", target, code: "NOT_FOUND", message, judged };
  }
  throw error;
}

/**
 * A folder with an attestation, where every other file is one of its outputs, but for keys right beside it. One without, and
 * what is no folder, is refused: a piece that is missing is not verified. So is a link: it would stand for a file that whoever
 * handed the folder over does not hold.
 */
export async function verifyFolder(folder: string, trust: Trust): Promise<Verification> {
  const own = [ATTESTATION_FILE, JWKS_FILE].map((name) => join(folder, name));
  const token = join(folder, ATTESTATION_FILE);
  const files: (GivenFile | UnreadFile)[] = [];
  let jwt: string;
  try {
    for (const path of filesIn(folder))
      if (!own.includes(path) || !isFile(path)) files.push(await givenFile(folder, path));
    if (!isFile(token)) {
      const unread = files.find(({ path }) => path === ATTESTATION_FILE);
      if (unread !== undefined && "refusal" in unread) throw unread.refusal;
      throw new DsecError("ATTESTATION_NOT_FOUND", `${folder} holds no file ${ATTESTATION_FILE}`);
    }
    jwt = await readJwt(token);
  } catch (error) {
    return refusal(folder, error);
  }
  return verify(folder, { jwt, files }, trust);
}

/**
 * What is to be verified of a folder: itself where it has an attestation, or else all that is in it but the keys. Empty where
 * nothing in it has one either.
 */
export function attestedFolders(folder: string): string[] {
  if (entryAt(join(folder, ATTESTATION_FILE))) return [folder];
  const paths = namesIn(folder).map((name) => join(folder, name));
  if (!paths.some((path) => isFolderWithToken(path))) return [];
  return paths.filter((path) => path !== join(folder, JWKS_FILE) || !isFile(path)).sort();
}

/** A link is not looked behind. */
function isFolderWithToken(path: string): boolean {
  return entryAt(path)?.isDirectory() === true && entryAt(join(path, ATTESTATION_FILE)) !== undefined;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (cause) {
    throw unreadable(folder, cause);
  }
}

/** `jwks.json` beside the path or in a folder above it. */
export function findJwksFile(path: string): string | undefined {
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    const candidate = join(folder, JWKS_FILE);
    if (isFile(candidate)) return candidate;
    if (folder === dirname(folder)) return undefined;
  }
}

export async function readJwksFile(path: string): Promise<{ keys: unknown[] }> {
  const value = parseJson(await readGivenFile(path, path, LIMITS.jwksBytes, "no JWKS is so long"), path);
  if (typeof value === "object" && value !== null && "keys" in value && Array.isArray(value.keys)) {
    return { keys: value.keys };
  }
  throw new DsecError("CONFIG_INVALID", `${path} is no JWKS: it has no "keys" list (RFC 7517 section 5)`);
}

export async function readJwt(path: string): Promise<string> {
  // a trailing newline is a file's, not the token's
  const bytes = await readGivenFile(path, path, LIMITS.jwtBytes + 2, "no attestation is so long");
  return Buffer.from(bytes).toString("latin1").trim();
}

/** Whatever is in the folder and below that is no folder. */
function filesIn(folder: string): string[] {
  const kind = lstatSync(folder);
  if (kind.isSymbolicLink()) throw noOutput(folder, "a link");
  if (!kind.isDirectory()) throw new DsecError("ATTESTATION_NOT_FOUND", `${folder} is attested by nothing`);
  const paths: string[] = [];
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) paths.push(...filesIn(path));
    else paths.push(path);
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

/** Links are not followed: a folder from a stranger must not make us read elsewhere. */
async function givenFile(folder: string, path: string): Promise<GivenFile | UnreadFile> {
  const named = relative(folder, path);
  const entry = entryAt(path);
  if (entry?.isFile() === false) {
    return { path: named, refusal: noOutput(path, entry.isSymbolicLink() ? "a link" : "no regular file") };
  }
  const hash = createHash("sha256");
  let size = 0;
  try {
    for await (const chunk of createReadStream(path)) {
      hash.update(chunk);
      size += chunk.length;
    }
  } catch (cause) {
    return { path: named, refusal: unreadable(path, cause) };
  }
  return { path: named, digest: digestOf(hash.digest()), size };
}

/** What is there itself, not what a link leads to; undefined where nothing is. */
export function entryAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (cause) {
    // nothing is below a file, nor has a name as long as a URL may be
    if (isFileError(cause) && /^(ENOTDIR|ENAMETOOLONG)$/.test(cause.code ?? "")) return undefined;
    throw unreadable(path, cause);
  }
}

function isFile(path: string): boolean {
  return entryAt(path)?.isFile() === true;
}

function unreadable(path: string, cause: unknown): DsecError {
  return new DsecError("NOT_FOUND", `${path} cannot be read: ${(cause as Error).message}`, { cause });
}

function isFileError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error;
}
