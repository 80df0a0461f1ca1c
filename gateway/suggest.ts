/** Names that were probably meant, for members and values that are not known. */
import type { z } from "zod";

/** The member names that a schema's object has at a path; empty where it is no object. */
export function knownMembers(schema: z.ZodType, path: PropertyKey[]): string[] {
  let at: z.core.$ZodType | undefined = schema;
  for (const part of path) at = at && memberOf(unwrap(at), part);
  const def = at && defOf(unwrap(at));
  return def?.type === "object" ? Object.keys((def as z.core.$ZodObjectDef).shape) : [];
}

/** The candidate that differs least: at most a third of its letters (case and separators apart), or undefined. */
export function nearest(name: string, candidates: readonly string[]): string | undefined {
  if (name.length > 64) return undefined;
  const plain = fold(name);
  let best: { candidate: string; distance: number } | undefined;
  for (const candidate of candidates) {
    const distance = editDistance(plain, fold(candidate));
    if (distance <= Math.max(1, candidate.length / 3) && (best === undefined || distance < best.distance)) {
      best = { candidate, distance };
    }
  }
  return best?.candidate;
}

function defOf(schema: z.core.$ZodType): z.core.$ZodTypeDef {
  return schema._zod.def;
}

/** What is validated beneath optional, default, nullable and transformed schemas. */
function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  const def = defOf(schema) as { innerType?: z.core.$ZodType; in?: z.core.$ZodType };
  const inner = def.innerType ?? def.in;
  return inner === undefined ? schema : unwrap(inner);
}

function memberOf(schema: z.core.$ZodType, part: PropertyKey): z.core.$ZodType | undefined {
  const def = defOf(schema) as {
    shape?: Record<PropertyKey, z.core.$ZodType>;
    element?: z.core.$ZodType;
    valueType?: z.core.$ZodType;
    options?: z.core.$ZodType[];
  };
  if (def.shape !== undefined && Object.hasOwn(def.shape, part)) return def.shape[part];
  if (def.options !== undefined) {
    for (const option of def.options) {
      const member = memberOf(unwrap(option), part);
      if (member !== undefined) return member;
    }
  }
  return def.element ?? def.valueType;
}

function fold(name: string): string {
  return name.toLowerCase().replaceAll(/[-_ ]/g, "");
}

/** Levenshtein's distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
