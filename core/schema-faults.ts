/** A value judged by a schema, and what is wrong with it in this project's words: zod's own never leave here. */
import type { z } from "zod";
import { nearest } from "./nearest-name.ts";
import { knownMembers } from "./schema-members.ts";

export type Fault = {
  /** As JavaScript would write it: `resources.cpu_cores`, `command[0]`; empty for the whole value. */
  path: string;
  /** What is allowed, and what was given: a type, a number or a length, never text, which may be a secret. */
  message: string;
};

export type Read<T> = { ok: true; value: T } | { ok: false; faults: [Fault, ...Fault[]] };

export function readAs<S extends z.ZodType>(schema: S, value: unknown): Read<z.output<S>> {
  const parsed = schema.safeParse(value, { error: sentenceOf });
  if (parsed.success) return { ok: true, value: parsed.data };
  const faults = parsed.error.issues.flatMap((issue) => faultsOf(issue, schema, []));
  return { ok: false, faults: faults as [Fault, ...Fault[]] };
}

/** `nonce: must have at least 8 characters, not 5` */
export function faultText({ path, message }: Fault): string {
  return path === "" ? message : `${path}: ${message}`;
}

function faultsOf(issue: z.core.$ZodIssue, schema: z.ZodType, base: PropertyKey[]): Fault[] {
  const path = [...base, ...issue.path];
  switch (issue.code) {
    case "unrecognized_keys": {
      const known = knownMembers(schema, path);
      return issue.keys.map((name) => {
        const meant = nearest(name, known);
        const hint = meant === undefined ? `known members: ${known.join(", ")}` : `did you mean ${meant}?`;
        return { path: pathText([...path, name]), message: `unknown member; ${hint}` };
      });
    }
    case "invalid_union":
      // The last alternative is the most general one, so its complaint says most.
      if (issue.errors.length > 0)
        return issue.errors.at(-1)!.flatMap((inner) => faultsOf(inner, schema, path));
      break;
    case "invalid_key":
      return issue.issues.map(({ message }) => ({ path: pathText(path), message: `its name ${message}` }));
    case "invalid_element":
      return issue.issues.flatMap((inner) => faultsOf(inner, schema, path));
  }
  return [{ path: pathText(path), message: issue.message }];
}

/** Of an issue whose schema has no words of its own. */
function sentenceOf(issue: z.core.$ZodRawIssue): string {
  const given =
    issue.discriminator === undefined ? issue.input : Object(issue.input)[issue.discriminator as string];
  const sentence = requirementOf(issue, given);
  if (given === undefined) return `is missing; it ${sentence}`;
  const other = contrastOf(issue.code, given);
  return other === null ? sentence : `${sentence}, not ${other}`;
}

function requirementOf(issue: z.core.$ZodRawIssue, given: unknown): string {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${TYPES[issue.expected as string] ?? `of type ${issue.expected}`}`;
    case "invalid_value":
      return oneOf(issue.values ?? [], given);
    case "too_small":
    case "too_big":
      return boundOf(issue);
    case "not_multiple_of":
      return `must be a multiple of ${issue.divisor}`;
    case "invalid_format":
      return formatOf(issue);
    case "invalid_union":
      if (issue.discriminator !== undefined) return oneOf(issue.options as unknown[], given);
      return issue.inclusive === false
        ? "must fit one of the forms that it may have, and fits several"
        : OTHER;
    default:
      return OTHER;
  }
}

/** Of a check without words, and of a code that is new: no more is known. */
const OTHER = "is not of the form that is allowed here";

/** What was given, where that helps: a number, a type, or how long it is. */
function contrastOf(code: string | undefined, given: unknown): string | null {
  switch (code) {
    case "invalid_type":
      return numberText(given) ?? typeText(given);
    case "invalid_value":
      return typeof given === "string" ? null : (numberText(given) ?? typeText(given));
    case "too_small":
    case "too_big":
    case "not_multiple_of":
      return numberText(given) ?? sizeText(given);
    default:
      return null;
  }
}

const TYPES: Record<string, string> = {
  string: "a string",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  null: "null",
  array: "an array",
  tuple: "an array",
  object: "an object",
  record: "an object",
  never: "absent",
};

const UNITS: Record<string, [one: string, many: string]> = {
  string: ["character", "characters"],
  array: ["item", "items"],
  map: ["entry", "entries"],
  set: ["entry", "entries"],
};

function boundOf(issue: z.core.$ZodRawIssue): string {
  const { exact, inclusive, origin } = issue;
  const small = issue.code === "too_small";
  const bound = Number(small ? issue.minimum : issue.maximum);
  const units = UNITS[origin as string];
  const amount = units === undefined ? String(bound) : `${bound} ${units[bound === 1 ? 0 : 1]}`;
  const [within, beyond] = small ? ["at least", "more than"] : ["at most", "less than"];
  const relation = exact ? "exactly" : inclusive ? within : beyond;
  return `must ${units === undefined ? "be" : "have"} ${relation} ${amount}`;
}

function formatOf(issue: z.core.$ZodRawIssue): string {
  switch (issue.format) {
    case "datetime":
      return "must be a time in UTC such as 2026-01-31T12:00:00Z";
    case "regex":
      return `must match ${issue.pattern}`;
    case "starts_with":
      return `must begin with ${issue.prefix}`;
    case "ends_with":
      return `must end with ${issue.suffix}`;
    case "includes":
      return `must hold ${issue.includes}`;
    default:
      return `must be of the format ${issue.format}`;
  }
}

function oneOf(values: readonly unknown[], given: unknown): string {
  const words = values.map(String);
  const meant = typeof given === "string" ? nearest(given, words) : undefined;
  const list = words.length < 2 ? words.join() : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
  return meant === undefined ? `must be ${list}` : `must be ${list}; did you mean ${meant}?`;
}

function numberText(value: unknown): string | null {
  return typeof value === "number" && Number.isFinite(value) ? String(value) : null;
}

function typeText(value: unknown): string | null {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "boolean") return String(value);
  // Made of text that is no number.
  if (typeof value === "number") return null;
  return TYPES[typeof value] ?? null;
}

function sizeText(value: unknown): string | null {
  if (typeof value === "string" || Array.isArray(value)) return String(value.length);
  return value instanceof Map || value instanceof Set ? String(value.size) : null;
}

function pathText(path: PropertyKey[]): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else text += text === "" ? String(part).slice(0, 200) : `.${String(part).slice(0, 200)}`;
  }
  return text;
}
