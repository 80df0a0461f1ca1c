/** The members that a schema knows, for naming the one that was probably meant. */
import type { z } from "zod";

/** The member names that a schema's object has at a path; empty where it is no object. */
export function knownMembers(schema: z.ZodType, path: PropertyKey[]): string[] {
  let at: z.core.$ZodType | undefined = schema;
  for (const part of path) at = at && memberOf(unwrap(at), part);
  const def = at && defOf(unwrap(at));
  return def?.type === "object" ? Object.keys((def as z.core.$ZodObjectDef).shape) : [];
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
