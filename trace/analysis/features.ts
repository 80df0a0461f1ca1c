/** What failures are compared by: short words that say one thing of a trace, such as `shipping_status=null`. */
import { LIMITS } from "#core/limits.ts";
import { erred } from "#trace/metrics/tool-calls.ts";
import { Unshown, type Value } from "#trace/query/value.ts";
import type { TraceFacts } from "./facts.ts";

/**
 * Memory at the end (`key=value`, with `[]` and `long` for what is no short value) and at the first failure (`at failure: key=value`),
 * tools (`tool NAME`, `tool NAME failed`) and codes of errors (`error CODE`). Keys that name one thing of many lose its name:
 * `reservation/OBUT9V/cabin` is `reservation/…/cabin`, which failures can have in common.
 */
export function featuresOf({ calls, errors, memoryState, memoryAtFailure }: TraceFacts): Set<string> {
  const features = new Set<string>();
  const add = (feature: string) => {
    if (features.size < LIMITS.traceFeatures) features.add(feature);
  };
  const remember = (when: string, key: string, value: Value) => {
    const text = shown(value);
    if (text !== null) add(`${when}${kindOf(key)}=${text}`);
  };
  for (const { code } of errors) add(`error ${code}`);
  for (const call of calls) {
    const name = call.tool ?? call.kind;
    add(`tool ${name}`);
    if (erred(call)) add(`tool ${name} failed`);
    if (call.code !== null) add(`error ${call.code}`);
  }
  for (const [key, value] of memoryState) remember("", key, value);
  for (const [key, value] of memoryAtFailure ?? []) remember("at failure: ", key, value);
  return features;
}

/** A path of three parts or more without what is between its first and its last. */
function kindOf(key: string): string {
  const parts = key.split(/[/.:]/);
  return shortened(parts.length < 3 ? key : `${parts[0]}/…/${parts.at(-1)}`);
}

/** Null for objects and lists, of which it says little that they are there. */
function shown(value: Value): string | null {
  if (value === null) return "null";
  if (value instanceof Unshown) return "long";
  if (typeof value === "object") return Array.isArray(value) && value.length === 0 ? "[]" : null;
  return shortened(typeof value === "string" ? JSON.stringify(value) : String(value));
}

function shortened(text: string): string {
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}
