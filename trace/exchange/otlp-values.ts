/**
 * Members of events as OTLP attributes and back (opentelemetry-proto, JSON encoding: 64-bit integers are decimal strings, bytes
 * are base64). Those that the GenAI semantic conventions have a name for go by it, the others by `dsec.` and their own.
 */

import type { EventType, JsonText } from "#trace/events/event.ts";
import { DOUBLES } from "#trace/events/plans.ts";
import { base64Of, fromBase64 } from "./event-lines.ts";
import { itemsOf, type JsonDocument, type JsonNode, memberOf, stringOf, treeOf } from "./json-tree.ts";

/** `answer.output_json` of a tool call's end, which is not said twice. */
export const TOOL_RESULT = "gen_ai.tool.call.result";

/** Attribute names of members, by type of event; a tool call's end is read with its start. */
const CONVENTIONS: { [T in EventType]?: Readonly<Record<string, string>> } = {
  tool_call_start: { tool: "gen_ai.tool.name", arguments_json: "gen_ai.tool.call.arguments" },
  tool_call_end: { code: "error.type" },
  completion: {
    model: "gen_ai.response.model",
    prompt_tokens: "gen_ai.usage.input_tokens",
    completion_tokens: "gen_ai.usage.output_tokens",
    cached_tokens: "gen_ai.usage.cache_read.input_tokens",
  },
  reward: { sum: "gen_ai.evaluation.score.value" },
  error: { code: "exception.type", text: "exception.message", stack: "exception.stacktrace" },
};

/** The attributes' JSON texts. @param prefix after `dsec.`, such as `end.` */
export function attributesOf(type: EventType, members: object, prefix = ""): string[] {
  const attributes: string[] = [];
  for (const [name, value] of Object.entries(members)) {
    const json = anyValue(value, name);
    if (json === null) continue;
    attributes.push(attribute(CONVENTIONS[type]?.[name] ?? `dsec.${prefix}${name}`, json));
  }
  return attributes;
}

export function attribute(key: string, value: string): string {
  return `{"key":${JSON.stringify(key)},"value":${value}}`;
}

export function stringValue(text: string): string {
  return `{"stringValue":${JSON.stringify(text)}}`;
}

/** AnyValue of a member; null for what is absent. */
export function anyValue(value: unknown, name: string): string | null {
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return null;
  if (typeof value === "string") return stringValue(value);
  if (typeof value === "boolean") return `{"boolValue":${value}}`;
  if (typeof value === "number") return DOUBLES.has(name) ? doubleValue(value) : `{"intValue":"${value}"}`;
  if (value instanceof Uint8Array) return `{"bytesValue":"${base64Of(value)}"}`;
  if (Array.isArray(value)) {
    // a place in a list is never left out: an absent item is an empty AnyValue
    return `{"arrayValue":{"values":[${value.map((item) => anyValue(item, name) ?? "{}")}]}}`;
  }
  const members: string[] = [];
  for (const [member, part] of Object.entries(value as object)) {
    const json = anyValue(part, member);
    if (json !== null) members.push(attribute(member, json));
  }
  return `{"kvlistValue":{"values":[${members}]}}`;
}

/** The members of an event out of the attributes of its span or span event. */
export function membersOf(
  type: EventType,
  attributes: JsonNode | null,
  document: JsonDocument,
  prefix = "",
): Record<string, unknown> {
  const names = new Map(Object.entries(CONVENTIONS[type] ?? {}).map(([member, key]) => [key, member]));
  const start = `dsec.${prefix}`;
  const members: Record<string, unknown> = {};
  for (const node of itemsOf(attributes)) {
    const key = stringOf(memberOf(node, "key")) ?? "";
    const own =
      key.startsWith(start) && !key.slice(start.length).includes(".") ? key.slice(start.length) : undefined;
    const member = names.get(key) ?? own;
    if (member !== undefined && member !== "__proto__")
      members[member] = valueOfAny(memberOf(node, "value"), document);
  }
  return members;
}

export function attributeValue(attributes: JsonNode | null, key: string, document: JsonDocument): unknown {
  const found = attributeOf(attributes, key);
  return found === undefined ? undefined : valueOfAny(memberOf(found, "value"), document);
}

/** The AnyValue of an attribute. */
export function attributeNode(attributes: JsonNode | null, key: string): JsonNode | null {
  return memberOf(attributeOf(attributes, key) ?? null, "value");
}

function attributeOf(attributes: JsonNode | null, key: string): JsonNode | undefined {
  return itemsOf(attributes).find((node) => stringOf(memberOf(node, "key")) === key);
}

/** A value of another program as JSON, its integers with every digit; null for a kind of value that is not known here. */
export function jsonOfAny(node: JsonNode | null, document: JsonDocument): JsonText {
  if (node?.kind !== "object" || node.members[0] === undefined) return "null";
  const { name, value } = node.members[0];
  switch (name) {
    case "intValue":
    case "doubleValue": {
      const text = stringOf(value) ?? document.textOf(value);
      return treeOf(text)?.kind === "number" ? text : JSON.stringify(text);
    }
    case "stringValue":
    case "boolValue":
    case "bytesValue":
      return document.textOf(value);
    case "arrayValue":
      return `[${itemsOf(memberOf(value, "values")).map((item) => jsonOfAny(item, document))}]`;
    case "kvlistValue": {
      const parts = itemsOf(memberOf(value, "values")).map((item) => {
        const key = JSON.stringify(stringOf(memberOf(item, "key")) ?? "");
        return `${key}:${jsonOfAny(memberOf(item, "value"), document)}`;
      });
      return `{${parts}}`;
    }
  }
  return "null";
}

/** @throws INVALID_REQUEST for integers past 2^53 − 1 */
function valueOfAny(node: JsonNode | null, document: JsonDocument): unknown {
  if (node?.kind !== "object" || node.members[0] === undefined) return null;
  const { name, value } = node.members[0];
  switch (name) {
    case "stringValue":
      return stringOf(value);
    case "boolValue":
      return value.kind === "literal" ? value.value : null;
    case "intValue": {
      const text = stringOf(value) ?? document.textOf(value);
      const number = Number(text);
      if (!Number.isSafeInteger(number))
        throw document.refused(`intValue ${text.slice(0, 40)} is past 2^53 - 1`);
      return number;
    }
    case "doubleValue":
      return Number(stringOf(value) ?? document.textOf(value));
    case "bytesValue":
      return fromBase64(stringOf(value) ?? "");
    case "arrayValue":
      return itemsOf(memberOf(value, "values")).map((item) => valueOfAny(item, document));
    case "kvlistValue": {
      const members: Record<string, unknown> = {};
      for (const item of itemsOf(memberOf(value, "values"))) {
        const key = stringOf(memberOf(item, "key"));
        if (key !== null && key !== "__proto__") members[key] = valueOfAny(memberOf(item, "value"), document);
      }
      return members;
    }
  }
  throw document.refused(`a value has ${JSON.stringify(name).slice(0, 40)}, which is no OTLP AnyValue`);
}

function doubleValue(value: number): string {
  if (Object.is(value, -0)) return '{"doubleValue":-0.0}';
  return `{"doubleValue":${Number.isFinite(value) ? value : `"${value}"`}}`;
}
