/**
 * Conversations as OpenAI-compatible programs keep them: `{messages: […]}` of chat completions, the items of a response
 * (`input`, `output`), or a bare array of either; with `choices`, `usage` and `logprobs` where the last answer is kept whole;
 * and the lines of a batch's output, of which each has an answer or says what went wrong.
 */
import { LIMITS } from "#core/limits.ts";
import { EXPECTED } from "./import-formats.ts";
import type { ImportNotes } from "./import-notes.ts";
import type { ImportedTrace, ImportOptions } from "./imported.ts";
import { itemsOf, JsonDocument, type JsonNode, memberOf, stringOf } from "./json-tree.ts";
import { Conversation, timeOf } from "./openai-conversation.ts";
import type { JsonRecord } from "./records.ts";
import { recordId } from "./trace-names.ts";

const SOURCE = "openai-messages";

/** @throws MALFORMED_JSON, INVALID_REQUEST naming the record and the message */
export async function importMessages(
  record: JsonRecord,
  name: string,
  options: ImportOptions,
): Promise<ImportedTrace> {
  const document = new JsonDocument(record.text, `${name}:${record.line}`);
  const { root } = document;
  const { items, answer, failure, status } = partsOf(document);
  const started =
    timeOf(document, root) ??
    (answer === null ? null : timeOf(document, answer)) ??
    firstTime(document, items) ??
    0;
  const conversation = new Conversation(document, started, options);
  for (const [index, item] of items.entries()) await conversation.add(item, `message ${index + 1}`);
  const isKnown = await conversation.addAnswer(answer);
  if (failure !== null) conversation.fail(failure, status);
  const other = failure !== null || isKnown || answer === root ? null : answer;
  if (other !== null) conversation.addOther(other);
  if (conversation.builder.events.length === 0) {
    conversation.notes.add("there is neither a message nor an answer", "the record");
  }
  return {
    header: {
      trace_id: recordId(document, ["id", "conversation_id", "session_id", "custom_id"], record.line),
      source: SOURCE,
      started_wall_us: started,
      labels_json: labelsOf(document, other, conversation.notes),
    },
    events: conversation.builder.events,
    notes: conversation.notes.list(),
  };
}

type Parts = {
  items: JsonNode[];
  /** What the model's server answered; the record itself where it is that. */
  answer: JsonNode | null;
  /** What it, or the batch, says went wrong. */
  failure: JsonNode | null;
  status: number | null;
};

function partsOf(document: JsonDocument): Parts {
  const { root } = document;
  if (root.kind === "array") return { items: root.items, answer: null, failure: null, status: null };
  const request = memberOf(root, "request") ?? memberOf(root, "body");
  const response = memberOf(root, "response");
  const answer = memberOf(response, "body") ?? response ?? root;
  const said = memberOf(response, "status_code");
  const status = said?.kind === "number" ? Number(document.textOf(said)) : null;
  const error = memberOf(root, "error") ?? memberOf(answer, "error");
  const isError = error?.kind === "object" || Boolean(stringOf(error));
  const failure = isError ? error : status !== null && status >= 400 ? answer : null;
  const given = messagesIn(root) ?? messagesIn(request);
  const items = given ?? [
    ...inputIn(root, request),
    ...itemsOf(memberOf(root, "output") ?? memberOf(answer, "output")),
  ];
  const isAnswered =
    failure !== null ||
    memberOf(answer, "choices") !== null ||
    (root.kind === "object" && root.members.some(({ name }) => name === "response"));
  if (given === null && items.length === 0 && !isAnswered) {
    throw document.refused(`it has no messages; ${EXPECTED[SOURCE]}`);
  }
  return { items, answer, failure, status };
}

function messagesIn(holder: JsonNode | null): JsonNode[] | null {
  const messages = memberOf(holder, "messages") ?? memberOf(holder, "items");
  return messages?.kind === "array" ? messages.items : null;
}

/** A text, or items. */
function inputIn(root: JsonNode, request: JsonNode | null): JsonNode[] {
  const input = memberOf(root, "input") ?? memberOf(request, "input");
  if (input === null) return [];
  return input.kind === "array" ? input.items : [input];
}

function firstTime(document: JsonDocument, items: JsonNode[]): number | null {
  for (const item of items) {
    const wallUs = timeOf(document, item);
    if (wallUs !== null) return wallUs;
  }
  return null;
}

/** The members that hold the conversation itself; all others are labels. */
const CONVERSATION = ["messages", "items", "input", "output", "choices"];
/** Of these too, but for what they hold of it. */
const HOLDERS = ["request", "response", "body"];

/** @param kept what the trace holds as an event already */
function labelsOf(document: JsonDocument, kept: JsonNode | null, notes: ImportNotes): string | null {
  const labels = restOf(document, document.root, kept, HOLDERS);
  if (labels === null || labels.length <= LIMITS.traceHeaderBytes / 4) return labels;
  notes.add("labels of the request and the response are too long, and left out", "the record");
  return restOf(document, document.root, kept, []);
}

function restOf(
  document: JsonDocument,
  node: JsonNode,
  kept: JsonNode | null,
  holders: string[],
): string | null {
  if (node.kind !== "object") return null;
  const parts: string[] = [];
  for (const { name, value } of node.members) {
    if (CONVERSATION.includes(name) || value === kept) continue;
    if (HOLDERS.includes(name) && !holders.includes(name)) continue;
    const text = holders.includes(name) ? restOf(document, value, kept, holders) : document.textOf(value);
    if (text !== null) parts.push(`${JSON.stringify(name)}:${text}`);
  }
  return parts.length === 0 ? null : `{${parts.join(",")}}`;
}
