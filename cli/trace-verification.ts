/** Whether a trace file is the one that an attestation names. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { digestOf } from "#core/json.ts";
import type { AttestationClaims, TraceSummary } from "#core/wire/attestations.ts";
import { openTraceFile } from "#trace/node/files.ts";
import type { Verification } from "./verification.ts";

/**
 * Judges the file by the attestation of its attempt among those that verified, which then says that they belong together; or is
 * refused, as is the only one where the file is of another attempt.
 */
export async function verifyTrace(path: string, results: Verification[]): Promise<Verification[]> {
  const trace = await readTrace(path);
  const verified = results.filter((result) => result.state === "verified");
  const own = verified.find(({ claims }) => claims.dsec.lease_id === trace.leaseId) ?? verified.at(0);
  if (own === undefined) return results;
  const difference = differenceFrom(own.claims, trace);
  return results.map((result): Verification => {
    if (result !== own) return result;
    if (difference !== null) {
      return {
        ...{ state: "refused", target: own.target, code: "DIGEST_MISMATCH" },
        message: `${path}: ${difference}`,
        judged: own.judged,
      };
    }
    const proven = `${path} is, byte for byte, the trace of this attempt: ${trace.count} events, whose chain ends with ${trace.chain_head}.`;
    const { explanation } = own;
    return {
      ...own,
      explanation: { ...explanation, proven: [...explanation.proven, proven] },
      files: [...own.files, path],
    };
  });
}

type ReadTrace = TraceSummary & { leaseId: string | null; redactedFrom: string | null };

/** Reads all of it: what the index says is not believed. */
async function readTrace(path: string): Promise<ReadTrace> {
  const file = await openTraceFile(path);
  try {
    const segment = file.segments.at(-1)!;
    const { events, chain_head } = await segment.verify();
    const hash = createHash("sha256");
    let size = 0;
    for await (const chunk of createReadStream(path)) {
      hash.update(chunk);
      size += chunk.length;
    }
    const { lease_id, redacted_from_digest } = segment.header;
    return {
      ...{ count: events, chain_head, digest: digestOf(hash.digest()), size },
      ...{ leaseId: lease_id, redactedFrom: redacted_from_digest },
    };
  } finally {
    await file.close();
  }
}

/** Null where it is the attested trace. */
function differenceFrom({ dsec }: AttestationClaims, given: ReadTrace): string | null {
  const { trace } = dsec;
  if (trace === null) return "no trace is attested of this attempt";
  if (given.leaseId !== dsec.lease_id) {
    return `it is of ${given.leaseId === null ? "no attempt" : `lease ${given.leaseId}`}, the attestation of lease ${dsec.lease_id}`;
  }
  if (given.digest !== trace.digest && given.redactedFrom === trace.digest) {
    return "it was made by redaction from the attested trace, and is another file; ask for the original to verify it";
  }
  for (const member of ["count", "chain_head", "digest", "size"] as const) {
    if (given[member] !== trace[member]) {
      return `its ${member} is ${given[member]}, attested is ${trace[member]}`;
    }
  }
  return null;
}
