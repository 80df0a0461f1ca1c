/**
 * JSON records out of a file, as people really have them: one a line or one document, with a byte-order mark, with CRLF, with
 * blank lines. What would lose or merge a record is refused with its line.
 */
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { type JsonNode, JsonSyntaxError, parseTree } from "./json-tree.ts";

/** `line` is where the record begins, from 1. */
export type JsonRecord = { line: number; text: string };

/**
 * The records of a file: its lines, or where the first line is no whole value, the document that the file is. The items of a
 * document that is an array are a record each, unless `items` is "whole".
 * @param name of the file, for errors
 * @throws INVALID_REQUEST for other encodings than UTF-8 and lines past `LIMITS.importRecordChars`; MALFORMED_JSON
 * with the line for what is no JSON
 */
export async function* readRecords(
  chunks: AsyncIterable<Uint8Array>,
  name: string,
  items: "each" | "whole" = "each",
): AsyncGenerator<JsonRecord> {
  const lines = readLines(chunks, name);
  let count = 0;
  for await (const line of lines) {
    if (isBlank(line.text)) continue;
    count++;
    const root = valueOn(line, name, count === 1);
    if (root === null) {
      yield* readDocument(line, lines, name, items);
      return;
    }
    if (root.kind === "array" && items === "each") yield* recordsIn(line, root);
    else yield line;
  }
}

/** Null where the line may be the beginning of a document over many lines. */
function valueOn(line: JsonRecord, name: string, first: boolean): JsonNode | null {
  try {
    return parseTree(line.text);
  } catch (cause) {
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    const opens = /^\s*[{[]/.test(line.text) && cause.offset >= line.text.trimEnd().length;
    if (first && opens) return null;
    const hint = cause.message === "text follows the value" ? "two values stand on one line" : cause.message;
    throw new DsecError("MALFORMED_JSON", `${name}:${line.line}: ${hint} at column ${cause.offset + 1}`, {
      cause,
    });
  }
}

async function* readDocument(
  first: JsonRecord,
  rest: AsyncIterable<JsonRecord>,
  name: string,
  items: "each" | "whole",
): AsyncGenerator<JsonRecord> {
  const parts = [first.text];
  let length = first.text.length;
  for await (const { text } of rest) {
    length += text.length + 1;
    if (length > LIMITS.importRecordChars) throw tooLong(name, first.line);
    parts.push(text);
  }
  const document = { line: first.line, text: parts.join("\n") };
  let root: JsonNode;
  try {
    root = parseTree(document.text);
  } catch (cause) {
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    throw new DsecError(
      "MALFORMED_JSON",
      `${name}:${first.line + lineEndsIn(document.text, 0, cause.offset)}: ${cause.message}`,
      {
        cause,
      },
    );
  }
  if (root.kind === "array" && items === "each") yield* recordsIn(document, root);
  else yield document;
}

/** An array of messages is one record; any other is one for each item. */
function* recordsIn(record: JsonRecord, root: JsonNode & { kind: "array" }): Generator<JsonRecord> {
  const isConversation = root.items.every(
    (item) =>
      item.kind === "object" &&
      item.members.some((member) => member.name === "role" || member.name === "type"),
  );
  if (root.items.length > 0 && isConversation) {
    yield record;
    return;
  }
  let before = { line: record.line, offset: 0 };
  for (const { start, end } of root.items) {
    // From the item before on: from the beginning each time would take the square of the document's length.
    before = { line: before.line + lineEndsIn(record.text, before.offset, start), offset: start };
    yield { line: before.line, text: record.text.slice(start, end) };
  }
}

function lineEndsIn(text: string, from: number, to: number): number {
  let ends = 0;
  for (let at = text.indexOf("\n", from); at >= 0 && at < to; at = text.indexOf("\n", at + 1)) ends++;
  return ends;
}

async function* readLines(chunks: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<JsonRecord> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let pending: string[] = [];
  let pendingLength = 0;
  let line = 1;
  let first = true;
  let head = new Uint8Array();
  const decoded = (bytes: Uint8Array | undefined): string => {
    try {
      return decoder.decode(bytes, { stream: bytes !== undefined });
    } catch (cause) {
      throw new DsecError("INVALID_REQUEST", `${name}:${line} is not UTF-8`, { cause });
    }
  };
  const begin = (bytes: Uint8Array): string => {
    first = false;
    refuseUtf16(bytes, name);
    const text = decoded(bytes);
    return text.startsWith("\uFEFF") ? text.slice(1) : text;
  };
  for await (const chunk of chunks) {
    let text: string;
    if (first) {
      // the mark may be cut anywhere, so the first four bytes are judged together
      head = joined(head, chunk);
      if (head.length < 4) continue;
      text = begin(head);
    } else text = decoded(chunk);
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      pending.push(text.slice(start, end));
      yield { line: line++, text: pending.join("").replace(/\r$/, "") };
      pending = [];
      pendingLength = 0;
      start = end + 1;
    }
    pending.push(text.slice(start));
    pendingLength += text.length - start;
    if (pendingLength > LIMITS.importRecordChars) throw tooLong(name, line);
  }
  const last = pending.join("") + (first ? begin(head) : "") + decoded(undefined);
  for (const text of last.split("\n")) {
    if (text !== "") yield { line, text: text.replace(/\r$/, "") };
    line++;
  }
}

function refuseUtf16(bytes: Uint8Array, name: string): void {
  const [a, b] = bytes;
  const marked = (a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff);
  if (marked || (bytes.length >= 2 && (a === 0 || b === 0))) {
    throw new DsecError(
      "INVALID_REQUEST",
      `${name} is UTF-16 or UTF-32; make it UTF-8: iconv -f UTF-16 -t UTF-8`,
    );
  }
}

function isBlank(text: string): boolean {
  return /^[ \t\r]*$/.test(text);
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}

function tooLong(name: string, line: number): DsecError {
  return new DsecError(
    "INVALID_REQUEST",
    `${name}:${line}: the record is longer than ${LIMITS.importRecordChars} characters; split it`,
  );
}
