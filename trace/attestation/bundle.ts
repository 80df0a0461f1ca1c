import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import { readAttestation, type VerifyOptions, verifyAttestation } from "./verify.ts";

/** A file that somebody holds: its name as given, and the SHA-256 and size of its bytes. */
export type GivenFile = { path: string; digest: Digest; size: number };

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

/**
 * Verifies an attestation and that every given file is one of its outputs (`DIGEST_MISMATCH` names those that are
 * not). A file is looked up by its path's last members: `output.json` is the output `/work/output.json`; `stdout` and
 * `stderr` are the streams. Codes beside that are those of verifyAttestation.
 */
export async function verifyBundle(
  bundle: { jwt: string; files: GivenFile[] } & VerifyOptions,
): Promise<VerifiedBundle> {
  const claims = await verifyAttestation(bundle.jwt, bundle);
  const attested = attestedFiles(claims);
  const matched: MatchedFile[] = [];
  const wrong: string[] = [];
  for (const file of bundle.files) {
    const named = attested.filter(({ path }) => isNamed(path, file.path));
    const same = named.find(({ digest, size }) => digest === file.digest && size === file.size);
    if (same) matched.push({ ...file, attestedAs: same.path });
    else if (named.length === 0) wrong.push(`${file.path}: no output of this name is attested`);
    else {
      const [{ path, digest, size }] = named as [GivenFile, ...GivenFile[]];
      wrong.push(
        `${file.path}: ${file.digest}, ${file.size} bytes; attested of ${path} is ${digest}, ${size} bytes`,
      );
    }
  }
  if (wrong.length > 0) {
    const more = wrong.length > 3 ? ` (and ${wrong.length - 3} more)` : "";
    throw new DsecError("DIGEST_MISMATCH", `task ${claims.sub}: ${wrong.slice(0, 3).join("; ")}${more}`, {
      details: { files: wrong },
    });
  }
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
