import { DsecError, type ErrorCode } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import { readAttestation, type VerifyOptions, verifyAttestation } from "./verify.ts";

/** A file that somebody holds: its name as given, and the SHA-256 and size of its bytes. */
export type GivenFile = { path: string; digest: Digest; size: number };

/** A file that should have been given, and why it could not be. */
export type UnreadFile = { path: string; refusal: DsecError };

/** What became of a file that was given, or should have been; a message names it. */
export type JudgedFile =
  | { path: string; state: "as_attested" }
  | { path: string; state: "refused"; code: ErrorCode; message: string };

/** A given file and what it is in the attestation: the path of an output in the sandbox, or a stream's name. */
export type MatchedFile = GivenFile & { attestedAs: string };

/** What the verifier did beyond the signature, and so what its words may rest on. */
export type VerifiedFacts = {
  /** The kid of the key that verified. */
  kid: string;
  /** Whether the caller said which issuer it trusts. */
  issuerChecked: boolean;
  nonceChecked: boolean;
  matched: MatchedFile[];
  /** Attested outputs that no given file is. */
  notGiven: string[];
};

/** A verified attestation and the files beside it; explainAttestation puts it into words. */
export type VerifiedBundle = VerifiedFacts & { claims: AttestationClaims };

/** The attestation verifies, and some of the files are not what it attests: all of them are judged. */
export class FilesRefused extends DsecError {
  readonly judged: JudgedFile[];

  constructor(subject: string, judged: JudgedFile[]) {
    const refused = judged.filter((file) => file.state === "refused");
    const shown = refused.slice(0, 3).map(({ message }) => message);
    const more = refused.length > 3 ? ` (and ${refused.length - 3} more)` : "";
    super(refused[0]!.code, `task ${subject}: ${shown.join("; ")}${more}`);
    this.judged = judged;
  }
}

/**
 * Verifies an attestation and that every given file is one of its outputs: throws FilesRefused where one is not
 * (`DIGEST_MISMATCH`), or could not be read. A file is looked up by its path's last members: `output.json` is the output
 * `/work/output.json`; `stdout` and `stderr` are the streams. Codes beside that are those of verifyAttestation.
 */
export async function verifyBundle(
  bundle: { jwt: string; files: (GivenFile | UnreadFile)[] } & VerifyOptions,
): Promise<VerifiedBundle> {
  const claims = await verifyAttestation(bundle.jwt, bundle);
  const attested = attestedFiles(claims);
  const matched: MatchedFile[] = [];
  const judged = bundle.files.map((file): JudgedFile => {
    const { path } = file;
    if ("refusal" in file) {
      const { code, message } = file.refusal;
      return { path, state: "refused", code, message };
    }
    const named = attested.filter((output) => isNamed(output.path, path));
    const same = named.find(({ digest, size }) => digest === file.digest && size === file.size);
    if (same === undefined) {
      return { path, state: "refused", code: "DIGEST_MISMATCH", message: difference(file, named[0]) };
    }
    matched.push({ ...file, attestedAs: same.path });
    return { path, state: "as_attested" };
  });
  if (matched.length < judged.length) throw new FilesRefused(claims.sub, judged);
  const given = new Set(matched.map(({ attestedAs }) => attestedAs));
  return {
    claims,
    kid: readAttestation(bundle.jwt).header.kid,
    issuerChecked: bundle.issuer !== null,
    nonceChecked: bundle.nonce !== undefined,
    matched,
    notGiven: claims.dsec.result.outputs.map(({ path }) => path).filter((path) => !given.has(path)),
  };
}

function difference(file: GivenFile, attested: GivenFile | undefined): string {
  if (attested === undefined) return `${file.path}: no output of this name is attested`;
  const { path, digest, size } = attested;
  return `${file.path}: ${file.digest}, ${file.size} bytes; attested of ${path} is ${digest}, ${size} bytes`;
}

function attestedFiles({ dsec: { result } }: AttestationClaims): GivenFile[] {
  return [
    ...result.outputs,
    { path: "stdout", digest: result.stdout.digest, size: result.stdout.kept_bytes },
    { path: "stderr", digest: result.stderr.digest, size: result.stderr.kept_bytes },
  ];
}

/** Whether the given path's members are the last ones of the attested path. */
function isNamed(attested: string, given: string): boolean {
  const end = given.replace(/^(\.?\/)+/, "");
  return attested === end || attested.endsWith(`/${end}`);
}
