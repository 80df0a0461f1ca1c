/**
 * How well an agent called its tools. A call erred if it did not bring what it was made for: it failed, timed out, was
 * answered by a fallback, or its tool itself said that it failed. One that its agent called off neither erred nor succeeded.
 */
import type { Digest } from "#core/ids.ts";
import { jsonDigest } from "#core/json.ts";
import type { CallState } from "#trace/events/event.ts";
import { canonicalExact, parseExact } from "#trace/query/value.ts";

export type CallOutcome = {
  tool: string | null;
  /** What the event says; null where the tool did not declare it. */
  read_only: boolean | null;
  arguments_json: string | null;
  arguments_digest: Digest | null;
  /** Null while it has not ended. */
  state: CallState | null;
  is_error: boolean | null;
};

export function erred({ state, is_error }: Pick<CallOutcome, "state" | "is_error">): boolean {
  return is_error === true || state === "failed" || state === "timed_out" || state === "fallback";
}

/** Share of the calls that ended which erred; null without one. */
export function errorRate(calls: readonly CallOutcome[]): number | null {
  const ended = calls.filter(({ state }) => state !== null);
  return ended.length === 0 ? null : ended.filter(erred).length / ended.length;
}

/** Share of all calls that were answered without error or timeout; null without a call. */
export function toolCallSuccess(calls: readonly CallOutcome[]): number | null {
  if (calls.length === 0) return null;
  return calls.filter((call) => call.state === "answered" && !erred(call)).length / calls.length;
}

/** A call that should have been made. */
export type GoldCall = { tool: string; arguments_json: string };

export type Accuracy = { value: number; matched: number; made: number; expected: number };

/**
 * 2·TP/(|P|+|G|): P are the calls that change state and did not err, G the expected ones that change state, TP their
 * multiset intersection by name and canonical arguments; 1 where both are empty. Integers past 2^53 keep their digits.
 * @param changesState a call of a tool that nobody declared counts as one that does
 */
export async function toolCallAccuracy(
  calls: readonly CallOutcome[],
  gold: readonly GoldCall[],
  changesState: (tool: string) => boolean,
): Promise<Accuracy> {
  const made = calls.filter(
    (call) => call.tool !== null && call.state === "answered" && !erred(call) && changesState(call.tool),
  );
  const expected = gold.filter(({ tool }) => changesState(tool));
  const left = new Map<string, number>();
  for (const call of expected) add(left, keyOf(call.tool, call.arguments_json), 1);
  let matched = 0;
  const unshown: CallOutcome[] = [];
  for (const call of made) {
    if (call.arguments_json === null) unshown.push(call);
    else if (takes(left, keyOf(call.tool!, call.arguments_json))) matched++;
  }
  if (unshown.length > 0) matched += await matchedByDigest(unshown, expected, left);
  const total = made.length + expected.length;
  return {
    value: total === 0 ? 1 : (2 * matched) / total,
    matched,
    made: made.length,
    expected: expected.length,
  };
}

/** Of arguments that were too long to be kept the trace has the SHA-256 of their RFC 8785 form. */
async function matchedByDigest(
  calls: readonly CallOutcome[],
  expected: readonly GoldCall[],
  left: Map<string, number>,
): Promise<number> {
  const keys = new Map<string, string>();
  for (const { tool, arguments_json } of expected) {
    const digest = await digestOf(arguments_json);
    if (digest !== null) keys.set(`${tool} ${digest}`, keyOf(tool, arguments_json));
  }
  let matched = 0;
  for (const { tool, arguments_digest } of calls) {
    const key = keys.get(`${tool} ${arguments_digest}`);
    if (key !== undefined && takes(left, key)) matched++;
  }
  return matched;
}

async function digestOf(json: string): Promise<Digest | null> {
  try {
    return await jsonDigest(JSON.parse(json));
  } catch {
    return null;
  }
}

function keyOf(tool: string, argumentsJson: string): string {
  return `${JSON.stringify(tool)} ${canonicalText(argumentsJson)}`;
}

/** What is no JSON is compared as text: a model may have written half an object. */
export function canonicalText(json: string): string {
  try {
    return canonicalExact(parseExact(json));
  } catch {
    return json;
  }
}

function add(counts: Map<string, number>, key: string, by: number): void {
  counts.set(key, (counts.get(key) ?? 0) + by);
}

function takes(counts: Map<string, number>, key: string): boolean {
  const count = counts.get(key) ?? 0;
  if (count > 0) counts.set(key, count - 1);
  return count > 0;
}
