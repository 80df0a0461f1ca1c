/** Which calls may have done something in the world, and so are made no second time. */
import { DsecError } from "#core/errors.ts";
import type { StartMembers } from "../channel/recorded-calls.ts";
import { nameOf } from "./divergence.ts";
import type { RecordedCall } from "./recording.ts";

/** What a replayed agent gets: a recorded answer, the world's, or the news that nobody knows what became of the call. */
export type Turn = { kind: "recorded"; call: RecordedCall } | { kind: "live" };

/**
 * Whether a call itself may do something: what goes out of a sandbox is a call of HTTP, also where a tool's program makes it,
 * and which of those only read is in their declaration or their method (RFC 9110 section 9.2.1).
 */
export function hasEffects({ kind, read_only, method }: StartMembers): boolean {
  return kind === "http" && read_only !== true && !SAFE.has(method ?? "");
}

const SAFE = new Set(["GET", "HEAD", "OPTIONS", "TRACE"]);

/** The same of a recorded call with what its tool did in its course. */
export function mayHaveActed({ start, toolActed }: RecordedCall): boolean {
  return toolActed || hasEffects(start);
}

/** A call within which the record broke off. @throws CALL_OUTCOME_UNKNOWN where it may have done something */
export function again(recorded: RecordedCall): Turn {
  if (!mayHaveActed(recorded)) return { kind: "live" };
  const { call, tool, method, url, wall_us } = recorded.start;
  throw new DsecError(
    "CALL_OUTCOME_UNKNOWN",
    `call ${call} (${nameOf(recorded.start)}) was under way when an earlier attempt was lost: it may or may not have been carried out; look before you make it again`,
    { details: { call, tool, method, url, begun_at: new Date(wall_us / 1000).toISOString() } },
  );
}
