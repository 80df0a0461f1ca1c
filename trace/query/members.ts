/**
 * The members of each type of event as they lie in its bytes: their field number in proto/trace.proto and what they are.
 * A `?` marks those that may be absent, which is null.
 */
import type { EventMembers, EventType } from "#trace/events/event.ts";
import { type Field, PLANS, type Plan } from "#trace/events/plans.ts";

export type Kind =
  | "integer"
  | "number"
  | "text"
  | "boolean"
  | "bytes"
  | "digest"
  | "shown"
  | "timing"
  | "answer"
  | "list";

export type Member = readonly [field: number, kind: Kind | `${Kind}?`];

type Members<M> = { readonly [K in keyof M]: readonly [number, null extends M[K] ? `${Kind}?` : Kind] };

const KINDS: Readonly<Record<Field["kind"], Kind>> = {
  uint32: "integer",
  uint64: "integer",
  int64: "integer",
  sint64: "integer",
  bool: "boolean",
  double: "number",
  string: "text",
  bytes: "bytes",
  digest: "digest",
  message: "list",
};

export const MEMBERS = Object.fromEntries(
  PLANS.Event.fields.flatMap(({ name, message }) => (message === null ? [] : [[name, membersOf(message)]])),
) as { readonly [T in EventType]: Members<EventMembers[T]> };

function membersOf({ fields }: Plan): Record<string, Member> {
  return Object.fromEntries(
    fields.map((field): [string, Member] => [
      field.name,
      [field.tag >>> 3, field.optional ? `${kindOf(field)}?` : kindOf(field)],
    ]),
  );
}

function kindOf({ kind, repeated, message }: Field): Kind {
  if (repeated) return "list";
  // An answer, a timing, a shown value.
  return message === null ? KINDS[kind] : (message.name.toLowerCase() as Kind);
}

/** Field numbers of what a timing says. */
export const TIMING_FIELDS: Readonly<Record<string, number>> = Object.fromEntries(
  planAt("tool_call_end", "timing").fields.map(({ name, tag }) => [name, tag >>> 3]),
);

function planAt(...path: string[]): Plan {
  return path.reduce(
    (plan, step) => plan.fields.find(({ name }) => name === step)!.message!,
    PLANS.Event as Plan,
  );
}

export function memberOf(type: EventType, name: string): Member | null {
  const members = MEMBERS[type] as Readonly<Record<string, Member>>;
  return Object.hasOwn(members, name) ? members[name]! : null;
}
