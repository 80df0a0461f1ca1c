/**
 * The subset of JSON Schema 2020-12 that channels and tools may declare. It decides in time linear in schema and value:
 * there is no `pattern`, no reference and no recursion, since values come from sandboxes and are judged on the executor's
 * one thread. A keyword that is not known is refused when it is declared; a misspelt rule must not be no rule.
 */
import { DsecError } from "./errors.ts";
import { canonicalJson, type Json } from "./json.ts";
import { LIMITS } from "./limits.ts";

/** A schema that `compileSchema` has taken: null where the value is as it says, else where it first is not, and how. */
export type Check = (value: Json, pointer?: string) => string | null;

/**
 * @param what the object named in errors, such as `channel results`
 * @throws INVALID_REQUEST with the place in the schema, and what may stand there
 */
export function compileSchema(schema: Json, what: string): Check {
  let nodes = 0;

  function compile(node: Json, place: string): Check {
    if (++nodes > LIMITS.channelSchemaNodes) {
      throw invalid(place, `has more than ${LIMITS.channelSchemaNodes} schemas`);
    }
    if (typeof node === "boolean")
      return (_value, pointer = "") => (node ? null : fault(pointer, "must not be there"));
    if (!isObject(node)) throw invalid(place, "must be a schema: an object, true or false");
    const checks = Object.entries(node).map(([keyword, rule]) => {
      if (!Object.hasOwn(KEYWORDS, keyword)) {
        throw invalid(
          place,
          `keyword ${JSON.stringify(keyword).slice(0, 80)} is not known; known: ${Object.keys(KEYWORDS).join(", ")}`,
        );
      }
      return KEYWORDS[keyword as Keyword](rule, { node, place: `${place}/${keyword}`, compile });
    });
    return (value, pointer = "") => {
      for (const check of checks) {
        const why = check(value, pointer);
        if (why !== null) return why;
      }
      return null;
    };
  }

  return compile(schema, `${what}: schema`);
}

type Context = {
  /** The schema that the keyword stands in. */
  node: { [keyword: string]: Json };
  place: string;
  compile(schema: Json, place: string): Check;
};
type Compile = (rule: Json, context: Context) => Check;

const TYPES: Record<string, (value: Json) => boolean> = {
  null: (value) => value === null,
  boolean: (value) => typeof value === "boolean",
  number: (value) => typeof value === "number",
  // As the standard has it, 1.0 is an integer.
  integer: (value) => Number.isInteger(value),
  string: (value) => typeof value === "string",
  array: Array.isArray,
  object: isObject,
};

/** Says nothing; kept so that schemas may explain themselves. */
const annotation: Compile = () => () => null;

const KEYWORDS = {
  $schema: annotation,
  title: annotation,
  description: annotation,
  default: annotation,
  examples: annotation,
  deprecated: annotation,
  // Says what a string is meant to be; as in the standard's own vocabulary it asserts nothing.
  format: annotation,

  allOf: combined((checks, value, pointer) => {
    for (const check of checks) {
      const why = check(value, pointer);
      if (why !== null) return why;
    }
    return null;
  }),
  anyOf: combined((checks, value, pointer) =>
    checks.some((check) => check(value, pointer) === null) ? null : fault(pointer, "fits none of anyOf"),
  ),
  oneOf: combined((checks, value, pointer) => {
    const fitting = checks.filter((check) => check(value, pointer) === null).length;
    return fitting === 1 ? null : fault(pointer, `fits ${fitting} of oneOf, which must be one`);
  }),
  not(rule, { place, compile }) {
    const check = compile(rule, place);
    return (value, pointer = "") =>
      check(value, pointer) === null ? fault(pointer, "fits what not forbids") : null;
  },

  type(rule, { place }) {
    const names = Array.isArray(rule) ? rule : [rule];
    for (const name of names) {
      if (typeof name !== "string" || !Object.hasOwn(TYPES, name)) {
        throw invalid(place, `must be among ${Object.keys(TYPES).join(", ")}`);
      }
    }
    return judge(
      (value) => names.some((name) => TYPES[name as string]!(value)),
      `must be ${names.join(" or ")}`,
    );
  },

  enum(rule, { place }) {
    if (!Array.isArray(rule)) throw invalid(place, "must be an array");
    const allowed = new Set(rule.map(canonicalJson));
    return judge((value) => allowed.has(canonicalJson(value)), "is none of the values that enum lists");
  },

  const(rule) {
    const allowed = canonicalJson(rule);
    return judge((value) => canonicalJson(value) === allowed, "is not the value that const gives");
  },

  properties(rule, { place, compile }) {
    if (!isObject(rule)) throw invalid(place, "must be an object of schemas");
    const members = Object.entries(rule).map(
      ([name, node]) => [name, compile(node, `${place}/${name}`)] as const,
    );
    return (value, pointer = "") => {
      if (!isObject(value)) return null;
      for (const [name, check] of members) {
        if (!Object.hasOwn(value, name)) continue;
        const why = check(value[name]!, below(pointer, name));
        if (why !== null) return why;
      }
      return null;
    };
  },

  additionalProperties(rule, { node, place, compile }) {
    const check = compile(rule, place);
    const { properties = null } = node;
    const named = new Set(isObject(properties) ? Object.keys(properties) : []);
    return (value, pointer = "") => {
      if (!isObject(value)) return null;
      for (const [name, member] of Object.entries(value)) {
        const why = named.has(name) ? null : check(member, below(pointer, name));
        if (why !== null) return why;
      }
      return null;
    };
  },

  required(rule, { place }) {
    if (!Array.isArray(rule) || !rule.every((name) => typeof name === "string")) {
      throw invalid(place, "must be an array of member names");
    }
    return (value, pointer = "") => {
      const missing = isObject(value) ? rule.find((name) => !Object.hasOwn(value, name)) : undefined;
      return missing === undefined ? null : fault(pointer, `lacks the member ${JSON.stringify(missing)}`);
    };
  },

  items(rule, { place, compile }) {
    const check = compile(rule, place);
    return (value, pointer = "") => {
      if (!Array.isArray(value)) return null;
      for (const [at, item] of value.entries()) {
        const why = check(item, below(pointer, String(at)));
        if (why !== null) return why;
      }
      return null;
    };
  },

  minItems: bound(length(Array.isArray), (items, least) => items >= least, "must have at least", "items"),
  maxItems: bound(length(Array.isArray), (items, most) => items <= most, "must have at most", "items"),
  minLength: bound(characters, (chars, least) => chars >= least, "must have at least", "characters"),
  maxLength: bound(characters, (chars, most) => chars <= most, "must have at most", "characters"),
  minimum: bound(number, (given, least) => given >= least, "must be at least"),
  maximum: bound(number, (given, most) => given <= most, "must be at most"),
  exclusiveMinimum: bound(number, (given, least) => given > least, "must be above"),
  exclusiveMaximum: bound(number, (given, most) => given < most, "must be below"),
} satisfies Record<string, Compile>;

type Keyword = keyof typeof KEYWORDS;

/** A keyword whose rule is a list of schemas, each judged for the whole value. */
function combined(decide: (checks: Check[], value: Json, pointer: string) => string | null): Compile {
  return (rule, { place, compile }) => {
    if (!Array.isArray(rule) || rule.length === 0)
      throw invalid(place, "must be an array of schemas, not empty");
    const checks = rule.map((node, at) => compile(node, `${place}/${at}`));
    return (value, pointer = "") => decide(checks, value, pointer);
  };
}

/** A keyword whose rule is a number; `measure` is undefined for values that it says nothing about. */
function bound(
  measure: (value: Json) => number | undefined,
  holds: (given: number, rule: number) => boolean,
  must: string,
  unit = "",
): Compile {
  return (rule, { place }) => {
    if (typeof rule !== "number" || (unit !== "" && (!Number.isInteger(rule) || rule < 0))) {
      throw invalid(place, unit === "" ? "must be a number" : "must be an integer that is not negative");
    }
    return judge((value) => {
      const given = measure(value);
      return given === undefined || holds(given, rule);
    }, `${must} ${rule} ${unit}`.trimEnd());
  };
}

function judge(holds: (value: Json) => boolean, otherwise: string): Check {
  return (value, pointer = "") => (holds(value) ? null : fault(pointer, otherwise));
}

function length(is: (value: Json) => boolean) {
  return (value: Json) => (is(value) ? (value as Json[]).length : undefined);
}

/** Unicode characters, as the standard counts, not UTF-16 units. */
function characters(value: Json): number | undefined {
  if (typeof value !== "string") return undefined;
  let count = 0;
  for (const _ of value) count++;
  return count;
}

function number(value: Json): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function isObject(value: Json): value is { [member: string]: Json } {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** RFC 6901. */
function below(pointer: string, member: string): string {
  return `${pointer}/${member.slice(0, 100).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function fault(pointer: string, why: string): string {
  return `${pointer === "" ? "the body" : pointer} ${why}`;
}

function invalid(place: string, why: string): DsecError {
  return new DsecError("INVALID_REQUEST", `${place.slice(0, 300)} ${why}`);
}
