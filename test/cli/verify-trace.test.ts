import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { issuedAttestation } from "#test/support/attestation.ts";
import { type TimedEvent, writeTrace } from "#trace/node/files.ts";
import { dsec } from "./dsec.ts";

let folder: string;
/** A folder with an attestation and its keys, and beside it the attempt's trace. */
let result: string;
let trace: string;
let header: { trace_id: string; source: string; started_wall_us: number; lease_id: string; fence: number };

const EVENTS: TimedEvent[] = [
  { type: "plan_step", state: "begun", step: 1, name: "one", t_us: 1, wall_us: 1 },
  { type: "reward", components: [], sum: 1, t_us: 2, wall_us: 2 },
];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "dsec-verify-trace-"));
  result = join(folder, "result");
  trace = join(folder, "attempt.trace");
  mkdirSync(result);
  const issued = await issuedAttestation({
    nowMs: Date.now() - 5_000,
    trace: ({ leaseId, fence }) => {
      header = { trace_id: "t", source: "dsec", started_wall_us: 0, lease_id: leaseId, fence };
      return writeTrace(trace, header, EVENTS);
    },
  });
  writeFileSync(join(result, "attestation.jwt"), issued.attestation.jwt);
  writeFileSync(join(result, "jwks.json"), JSON.stringify(issued.jwks));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function verified(path: string) {
  const { code, stdout } = await dsec(["verify", result, "--trace", path, "--json"]);
  return { exit: code, ...JSON.parse(stdout.toString())[0] };
}

test("the trace of an attempt verifies against its attestation", async () => {
  const { exit, state, files, explanation } = await verified(trace);
  expect([exit, state, files]).toEqual([0, "verified", [trace]]);
  expect(explanation.proven.at(-1)).toMatch(
    /attempt\.trace is, byte for byte, the trace of this attempt: 2 events/,
  );
});

test("another trace is refused, and the difference named", async () => {
  const other = async (name: string, given: object, events: TimedEvent[]) => {
    await writeTrace(join(folder, name), { ...header, ...given }, events);
    return verified(join(folder, name));
  };
  const { digest } = await writeTrace(join(folder, "same.trace"), header, EVENTS);
  const cases = [
    [await other("fewer.trace", {}, EVENTS.slice(1)), /count is 1, attested is 2/],
    [
      await other("changed.trace", {}, [EVENTS[0]!, { ...EVENTS[1]!, sum: 2 } as TimedEvent]),
      /chain_head is sha256:/,
    ],
    [await other("renamed.trace", { trace_id: "u" }, EVENTS), /digest is sha256:/],
    [await other("lease.trace", { fence: 9, lease_id: "lease_other" }, EVENTS), /it is of lease lease_other/],
    [
      await other("redacted.trace", { redacted_from_digest: digest }, EVENTS),
      /made by redaction from the attested trace/,
    ],
  ] as const;
  for (const [{ exit, state, code, message }, says] of cases) {
    expect([exit, state, code]).toEqual([1, "refused", "DIGEST_MISMATCH"]);
    expect(message).toMatch(says);
  }
});

test("a trace with a flipped bit is no trace, and no file is", async () => {
  const bytes = readFileSync(trace);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(join(folder, "flipped.trace"), bytes);
  for (const [name, code] of [
    ["flipped.trace", /error (TRACE_CORRUPT|DIGEST_MISMATCH)|"DIGEST_MISMATCH"/],
    ["absent.trace", /error NOT_FOUND/],
  ] as const) {
    const ended = await dsec(["verify", result, "--trace", join(folder, name), "--json"]);
    expect(ended.code).toBe(1);
    expect(ended.stderr + ended.stdout).toMatch(code);
  }
});
