/** What failures are compared by: short words that say one thing of a trace, such as `shipping_status=null`. */
import { LIMITS } from "#core/limits.ts";
import { erred } from "#trace/metrics/tool-calls.ts";
import { Unshown, type Value } from "#trace/query/value.ts";
import type { TraceFacts } from "./facts.ts";

/**
 * Memory at the end (`key=value`, `key=list` for what is no single value) and at the first failure (`at failure: key=value`), tools
 * (`tool NAME`, `tool NAME failed`) and codes of errors (`error CODE`).
 */
export function featuresOf({ calls, errors, memoryState, memoryAtFailure }: TraceFacts): Set<string> {
  const features = new Set<string>();
  const add = (feature: string) => {
    if (features.size < LIMITS.traceFeatures) features.add(feature);
  };
  for (const { code } of errors) add(`error ${code}`);
  for (const call of calls) {
    const name = call.tool ?? call.kind;
    add(`tool ${name}`);
    if (erred(call)) add(`tool ${name} failed`);
    if (call.code !== null) add(`error ${call.code}`);
  }
  for (const [key, value] of memoryState) add(`${shortened(key)}=${shown(value)}`);
  for (const [key, value] of memoryAtFailure ?? []) add(`at failure: ${shortened(key)}=${shown(value)}`);
  return features;
}

function shown(value: Value): string {
  if (value === null) return "null";
  if (value instanceof Unshown) return "long";
  if (Array.isArray(value)) return value.length === 0 ? "[]" : "list";
  if (typeof value === "object") return "object";
  return shortened(typeof value === "string" ? JSON.stringify(value) : String(value));
}

function shortened(text: string): string {
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}
