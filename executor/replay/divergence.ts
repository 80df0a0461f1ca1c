import { DsecError } from "#core/errors.ts";
import type { StartMembers } from "../channel/recorded-calls.ts";
import type { CallStart } from "./recording.ts";

/** Where an agent left the record. `call` is the recorded one that was due; null past the last. */
export type Divergence = {
  what: "call" | "memory" | "output";
  call: number | null;
  recorded: { [member: string]: unknown } | null;
  given: { [member: string]: unknown };
  /** Members that differ. */
  members: string[];
  message: string;
};

/** What a call is recognized by. Bodies and arguments by their digests, in which the order of members is lost. */
const MATCHED = ["kind", "tool", "via", "where", "method", "url", "passage", "arguments_digest"] as const;

/** Equal for calls that differ in nothing. */
export function likeness(call: StartMembers): string {
  return JSON.stringify(MATCHED.map((name) => call[name] ?? null));
}

/** Members in which a call is not the recorded one. */
export function differing(recorded: CallStart, given: StartMembers): string[] {
  return MATCHED.filter((name) => recorded[name] !== (given[name] ?? null));
}

/** What there is to see of a call. */
export function shownCall(call: StartMembers): { [member: string]: unknown } {
  const { arguments_json, body } = call;
  const members = MATCHED.map((name) => [name, call[name] ?? null] as const);
  const text = body == null ? null : Buffer.from(body).toString("utf8").toWellFormed();
  return { ...Object.fromEntries(members), arguments_json: arguments_json ?? null, body: text };
}

export function nameOf({ tool, kind, method, url }: StartMembers): string {
  return tool ?? (url == null ? kind : `${method} ${url.slice(0, 200)}`);
}

export function errorOf(divergence: Divergence): DsecError {
  const { message, ...details } = divergence;
  return new DsecError("REPLAY_DIVERGED", `the replay has left the record: ${message}`, { details });
}
