/** Between which events a query can be true at all, so that blocks before and after are not read. */
import type { TraceSegment } from "#trace/format/segment.ts";
import type { Expression, Operator } from "./parse.ts";

/** `toSeq` is null where nothing bounds it. Only what the whole query demands counts: a part of an `or` bounds nothing. */
export async function seqRange(
  expression: Expression,
  segment: Pick<TraceSegment, "blocks" | "call">,
): Promise<{ fromSeq: number; toSeq: number | null }> {
  let fromSeq = 1;
  let toSeq = Number.POSITIVE_INFINITY;
  for (const { name, operator, number } of demands(expression)) {
    const below = ["==", "<", "<="].includes(operator);
    const above = ["==", ">", ">="].includes(operator);
    if (name === "seq") {
      if (below) toSeq = Math.min(toSeq, Math.floor(number));
      if (above) fromSeq = Math.max(fromSeq, Math.ceil(number));
    } else if (name === "call") {
      // Whatever belongs to a call comes after its start.
      const start = operator === "==" && Number.isSafeInteger(number) ? await segment.call(number) : null;
      fromSeq = Math.max(fromSeq, start ?? 1);
    } else {
      // Times of events may pass each other by a little; a block's bound those of all that is in it.
      const t_us = name === "time" ? number * 1e6 : number;
      if (below) toSeq = Math.min(toSeq, lastBefore(segment, t_us));
      if (above) fromSeq = Math.max(fromSeq, firstAfter(segment, t_us));
    }
  }
  return { fromSeq, toSeq: Number.isFinite(toSeq) ? toSeq : null };
}

type Demand = { name: "seq" | "call" | "time" | "t_us"; operator: Operator; number: number };

function demands(expression: Expression): Demand[] {
  if (expression.kind === "and") return expression.of.flatMap(demands);
  if (expression.kind !== "compare") return [];
  const { operator, left, right } = expression;
  if (left.kind === "literal" && right.kind === "name") {
    return demands({ ...expression, left: right, right: left, operator: MIRRORED[operator] ?? operator });
  }
  if (left.kind !== "name" || right.kind !== "literal" || left.path.length > 1) return [];
  const name = (["seq", "call", "time", "t_us"] as const).find((candidate) => candidate === left.path[0]);
  const { value } = right;
  if (name === undefined || (typeof value !== "number" && typeof value !== "bigint")) return [];
  return [{ name, operator, number: Number(value) }];
}

const MIRRORED: { [O in Operator]?: Operator } = { "<": ">", "<=": ">=", ">": "<", ">=": "<=" };

/** The last number in a block that begins by then; 0 where none does. */
function lastBefore({ blocks }: Pick<TraceSegment, "blocks">, t_us: number): number {
  return blocks.reduce(
    (last, block) => (block.first_t_us <= t_us ? Math.max(last, block.last_seq) : last),
    0,
  );
}

/** The first number in a block that ends no earlier. */
function firstAfter({ blocks }: Pick<TraceSegment, "blocks">, t_us: number): number {
  return blocks.reduce(
    (first, block) => (block.last_t_us >= t_us ? Math.min(first, block.first_seq) : first),
    Number.MAX_SAFE_INTEGER,
  );
}
