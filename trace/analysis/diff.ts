/**
 * Two traces beside each other. Their calls are aligned by tool and arguments: as long as both make the same calls one by one,
 * afterwards by the longest common subsequence.
 */
import { LIMITS } from "#core/limits.ts";
import { decodeEvent } from "#trace/events/codec.ts";
import type { Token, TraceEvent } from "#trace/events/event.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { type Compared, compareTokens } from "#trace/metrics/logit-divergence.ts";
import { longestCommon } from "#trace/metrics/plan-steps.ts";
import { canonicalText } from "#trace/metrics/tool-calls.ts";
import { canonicalExact, Unshown, type Value } from "#trace/query/value.ts";
import type { CallFacts, TraceFacts } from "./facts.ts";
import { type Measured, type MeasureOptions, measure } from "./metrics.ts";
import type { TraceRow } from "./report-data.ts";
import { toolName } from "./tool-table.ts";

export type DiffCall = {
  call: number;
  seq: number;
  tool: string;
  arguments: string;
  answer: string;
  state: string | null;
};

export type DiffData = {
  a: TraceRow;
  b: TraceRow;
  calls: { a: number; b: number; same: number };
  /** The first call that is not the same in both, counted from 1; null where all are. A side that has ended is null. */
  first_divergence: { position: number; a: DiffCall | null; b: DiffCall | null } | null;
  /** Same call, another answer. */
  changed_answers: { a: DiffCall; b: DiffCall }[];
  only_in_a: DiffCall[];
  only_in_b: DiffCall[];
  /** Whether what follows on the first divergence was too long to be aligned. */
  unaligned: boolean;
  memory: { key: string; a: string | null; b: string | null }[];
  rewards: { name: string; a: number | null; b: number | null }[];
  /** Of the first text both tell tokens of, while both have the same context. */
  logit_divergence: Compared | null;
};

export async function diff(
  a: { segment: TraceSegment; file: string },
  b: { segment: TraceSegment; file: string },
  options: MeasureOptions & { threshold: number },
): Promise<DiffData> {
  const [one, other] = [await readSide(a, options), await readSide(b, options)];
  const [keysA, keysB] = [one.calls.map(keyOf), other.calls.map(keyOf)];
  let same = 0;
  while (same < keysA.length && same < keysB.length && keysA[same] === keysB[same]) same++;
  const [restA, restB] = [keysA.slice(same), keysB.slice(same)];
  const unaligned = restA.length * restB.length > LIMITS.alignedPairs;
  const aligned = unaligned ? [] : longestCommon(restA, restB);
  const pairs = [
    ...Array.from({ length: same }, (_, at): [number, number] => [at, at]),
    ...aligned.map(([inA, inB]): [number, number] => [same + inA, same + inB]),
  ];
  const [pairedA, pairedB] = [0, 1].map((side) => new Set(pairs.map((pair) => pair[side]!))) as [
    Set<number>,
    Set<number>,
  ];
  const diverges = same < keysA.length || same < keysB.length;
  return {
    a: one.measured.row,
    b: other.measured.row,
    calls: { a: keysA.length, b: keysB.length, same: pairs.length },
    first_divergence: diverges
      ? { position: same + 1, a: one.calls[same] ?? null, b: other.calls[same] ?? null }
      : null,
    changed_answers: pairs
      .map(([inA, inB]) => ({ a: one.calls[inA]!, b: other.calls[inB]! }))
      .filter((pair) => pair.a.answerKey !== pair.b.answerKey)
      .slice(0, LIMITS.reportCalls)
      .map((pair) => ({ a: shownCall(pair.a), b: shownCall(pair.b) })),
    only_in_a: one.calls
      .filter((_, at) => !pairedA.has(at))
      .slice(0, LIMITS.reportCalls)
      .map(shownCall),
    only_in_b: other.calls
      .filter((_, at) => !pairedB.has(at))
      .slice(0, LIMITS.reportCalls)
      .map(shownCall),
    unaligned,
    memory: memoryDiff(one.measured.facts, other.measured.facts),
    rewards: rewardDiff(one.measured.facts, other.measured.facts),
    logit_divergence: compareTokens(await tokensOf(a.segment), await tokensOf(b.segment), options.threshold),
  };
}

type SideCall = DiffCall & { argumentsKey: string; answerKey: string };
type Side = { measured: Measured; calls: SideCall[] };

async function readSide(
  { segment, file }: { segment: TraceSegment; file: string },
  options: MeasureOptions,
): Promise<Side> {
  const starts = new Map<number, { shown: string; key: string }>();
  const ends = new Map<number, { shown: string; key: string }>();
  const measured = await measure(segment, file, options, (event) => {
    if (event.type === "tool_call_start") starts.set(event.call, sent(event));
    else if (event.type === "tool_call_end") ends.set(event.call, answered(event));
  });
  const calls = measured.facts.calls.map((call): SideCall => {
    const [start, end] = [starts.get(call.call), ends.get(call.call)];
    return {
      ...identity(call),
      arguments: start?.shown ?? "",
      answer: end?.shown ?? "",
      argumentsKey: start?.key ?? "",
      answerKey: end?.key ?? "",
    };
  });
  return { measured, calls };
}

function identity(call: CallFacts): Pick<DiffCall, "call" | "seq" | "tool" | "state"> {
  return { call: call.call, seq: call.seq, tool: toolName(call), state: call.state };
}

function shownCall({ argumentsKey: _, answerKey: __, ...call }: SideCall): DiffCall {
  return call;
}

/** By digest, so that what is kept of a call is short however long its arguments are. */
function sent(event: TraceEvent<"tool_call_start">): { shown: string; key: string } {
  const { arguments_json, arguments_digest, method, url } = event;
  const shown = arguments_json ?? [method, url].filter((part) => part !== null).join(" ");
  // RFC 8785 rounds integers past 2^53: where the text is there, it decides.
  const key = arguments_json === null ? (arguments_digest ?? shown) : canonicalText(arguments_json);
  return { shown: shown.slice(0, MOST_SHOWN), key: `${method ?? ""} ${url ?? ""} ${key}` };
}

function answered(event: TraceEvent<"tool_call_end">): { shown: string; key: string } {
  const { answer, output_digest, json_digest, state, code } = event;
  const json = answer?.output_json ?? null;
  const shown = json ?? event.text ?? "";
  const what = json_digest ?? output_digest ?? canonicalText(shown);
  return { shown: shown.slice(0, MOST_SHOWN), key: `${state} ${code} ${what}` };
}

const MOST_SHOWN = 500;

function keyOf({ tool, argumentsKey }: SideCall): string {
  return `${tool} ${argumentsKey}`;
}

function memoryDiff(a: TraceFacts, b: TraceFacts): DiffData["memory"] {
  const keys = [...new Set([...a.memoryState.keys(), ...b.memoryState.keys()])].sort();
  return keys
    .map((key) => ({ key, a: textOf(a.memoryState, key), b: textOf(b.memoryState, key) }))
    .filter((row) => row.a !== row.b);
}

function textOf(state: ReadonlyMap<string, Value>, key: string): string | null {
  if (!state.has(key)) return null;
  const value = state.get(key);
  return value instanceof Unshown ? `${value.bytes} bytes, ${value.digest}` : canonicalExact(value);
}

function rewardDiff(a: TraceFacts, b: TraceFacts): DiffData["rewards"] {
  const [one, other] = [a.rewards.at(-1), b.rewards.at(-1)];
  const names = [one, other].flatMap((reward) => reward?.components.map(({ name }) => name) ?? []);
  const product = (reward: typeof one, name: string) =>
    reward?.components.find((component) => component.name === name)?.product ?? null;
  return [
    ...[...new Set(names)].map((name) => ({ name, a: product(one, name), b: product(other, name) })),
    { name: "sum", a: one?.sum ?? null, b: other?.sum ?? null },
  ];
}

async function tokensOf(segment: TraceSegment): Promise<Token[]> {
  for await (const batch of segment.batches({ sections: ["token_logit"] })) {
    const first = batch.find(({ type }) => type === "token_logit");
    if (first === undefined) continue;
    return (decodeEvent(first.bytes, segment.startedWallUs) as TraceEvent<"token_logit">).tokens;
  }
  return [];
}
