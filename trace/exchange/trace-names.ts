/** Names: of a record within its source, and of the file that its trace goes to. */
import { DsecError } from "#core/errors.ts";
import { sha256 } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { type JsonDocument, memberOf } from "./json-tree.ts";

/** The record's own id: a string or a number, which both are its text; `line-7` for one that has none. */
export function recordId(document: JsonDocument, members: string[], line: number): string {
  for (const member of members) {
    const node = memberOf(document.root, member);
    if (node?.kind === "string" && node.value !== "") return node.value;
    if (node?.kind === "number") return document.textOf(node);
  }
  return `line-${line}`;
}

/** A file name that no id can lead out of its folder, or onto another id's file. */
export async function traceFileName(traceId: string): Promise<string> {
  if (PLAIN.test(traceId) && traceId.length <= LIMITS.traceNameChars) return `${traceId}.trace`;
  const readable = traceId
    .replace(/[^A-Za-z0-9_-]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, 40);
  const digest = await sha256(traceId);
  return `${readable || "trace"}.${digest.slice(7, 23)}.trace`;
}

/** No dots: so a plain id is never the name that an odd one is given. */
const PLAIN = /^[A-Za-z0-9_-]+$/;

/** Ids of one run. Two records of one id would become one file, and their metrics one record. */
export class SeenIds {
  readonly #lines = new Map<string, string>();

  /** @throws INVALID_REQUEST naming both places */
  add(id: string, place: string): void {
    const before = this.#lines.get(id);
    if (before !== undefined) {
      throw new DsecError(
        "INVALID_REQUEST",
        `${place}: id ${JSON.stringify(id).slice(0, 120)} was given at ${before} already; make ids unique, for each record becomes a file of its own`,
      );
    }
    this.#lines.set(id, place);
  }
}
