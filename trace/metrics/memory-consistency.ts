/**
 * Whether what a trace says of the task's memory hangs together: 1 − violations/checks, and 0 where a hash or a replay is broken.
 * Checked are
 *
 * - hashes: the digest before a call is the last one known, where no write was recorded in between; nothing changed unrecorded,
 *   and memory could be read at the end;
 * - replay: each change begins with the value that the change before it left, and a snapshot holds what the changes give;
 * - types: a change keeps the JSON type of the value, null aside;
 * - provenance: a change says where it came from, the place in the agent's program or the tool call;
 * - null: a value becomes null only where the last answer said null of it.
 */
import type { Shown, TraceEvent } from "#trace/events/event.ts";
import { canonicalExact, partOf, type Value, valueOfText } from "#trace/query/value.ts";

export type Consistency = {
  /** Null where nothing was to be checked. */
  value: number | null;
  checks: number;
  violations: number;
  /** A hash or a replay did not hold. */
  broken: boolean;
  /** The first ones. */
  examples: { seq: number; what: string }[];
};

const MOST_EXAMPLES = 100;

/** What is known of a value: itself, or the digest of its text. */
type Known = { text: string } | { digest: string };

/** Is given the events of one trace in their order. */
export class MemoryCheck {
  readonly #isOwn: (namespace: string) => boolean;
  readonly #values = new Map<string, Known>();
  #digest: string | null = null;
  #writesSince = 0;
  #answer: Value = undefined;
  #checks = 0;
  #violations = 0;
  #broken = false;
  readonly #examples: Consistency["examples"] = [];

  /** @param isOwn whether a namespace is the task's */
  constructor(isOwn: (namespace: string) => boolean) {
    this.#isOwn = isOwn;
  }

  add(event: TraceEvent): void {
    switch (event.type) {
      case "tool_call_start":
        this.#digestIs(event.memory_digest, event.seq, "before the call");
        return;
      case "tool_call_end":
        this.#answer = event.answer === null ? undefined : valueOfText(event.answer.output_json);
        if (event.memory_digest !== null) this.#isAt(event.memory_digest);
        return;
      case "error":
        if (event.code === "MEMORY_CHANGED_UNRECORDED")
          this.#breaks(event.seq, `memory of ${event.namespace} changed without a recorded write`);
        if (event.code === "MEMORY_UNCHECKED")
          this.#check(false, event.seq, `memory of ${event.namespace} could not be read at the end`);
        return;
      case "memory_write":
        if (this.#isOwn(event.namespace)) this.#changed(event);
        return;
      case "memory_snapshot":
        if (this.#isOwn(event.namespace)) this.#snapshot(event);
        return;
    }
  }

  result(): Consistency {
    const [checks, violations] = [this.#checks, this.#violations];
    const share = checks === 0 ? null : 1 - violations / checks;
    const value = this.#broken ? 0 : share;
    return { value, checks, violations, broken: this.#broken, examples: this.#examples };
  }

  #changed(event: TraceEvent<"memory_write">): void {
    const { seq, op, key } = event;
    this.#writesSince++;
    if (op === "clear") {
      this.#values.clear();
      return;
    }
    const before = this.#values.get(key);
    const old = knownOf(event.old);
    // Of a key that was there before the trace began nothing is known.
    if (before !== undefined) {
      const same = sameValue(before, old);
      if (same !== null)
        this.#replays(same, seq, `${key}: the change does not begin with the value before it`);
    }
    const now = op === "put" ? knownOf(event.new) : null;
    if (now === null) this.#values.delete(key);
    else this.#values.set(key, now);
    // Time takes entries away by itself.
    if (op === "expire") return;
    this.#check(
      event.origin !== null || event.call !== null,
      seq,
      `${key}: nobody says where the change came from`,
    );
    if (op !== "put") return;
    const [was, is] = [valueIn(event.old), valueIn(event.new)];
    if (was === undefined || is === undefined || was === null) return;
    if (is === null) {
      this.#check(this.#saidNull(key), seq, `${key}: a value became null, and no answer said so`);
    } else this.#check(typeOf(was) === typeOf(is), seq, `${key}: ${typeOf(was)} became ${typeOf(is)}`);
  }

  #snapshot({ seq, entries_json, state_digest }: TraceEvent<"memory_snapshot">): void {
    const entries = valueOfText(entries_json);
    for (const [key, known] of this.#values) {
      const there = partOf(entries, key);
      const has = typeof entries === "object" && entries !== null && Object.hasOwn(entries, key);
      const same = "text" in known ? has && canonicalExact(there) === known.text : null;
      if (same !== null)
        this.#replays(same, seq, `${key}: the snapshot holds another value than the changes give`);
    }
    if (typeof entries === "object" && entries !== null) {
      this.#values.clear();
      for (const [key, value] of Object.entries(entries))
        this.#values.set(key, { text: canonicalExact(value) });
    }
    this.#digestIs(state_digest, seq, "in the snapshot");
  }

  #digestIs(digest: string | null, seq: number, when: string): void {
    if (digest === null) return;
    if (this.#digest !== null && this.#writesSince === 0)
      this.#replays(
        digest === this.#digest,
        seq,
        `the memory's digest ${when} is not the last one, and nothing was written`,
      );
    this.#isAt(digest);
  }

  #isAt(digest: string): void {
    this.#digest = digest;
    this.#writesSince = 0;
  }

  #saidNull(key: string): boolean {
    if (this.#answer === null) return true;
    const member = key.slice(Math.max(key.lastIndexOf("/"), key.lastIndexOf(".")) + 1);
    const answer = this.#answer;
    if (typeof answer !== "object" || !Object.hasOwn(answer, member)) return false;
    return partOf(answer, member) === null;
  }

  #replays(holds: boolean, seq: number, what: string): void {
    if (holds) this.#checks++;
    else this.#breaks(seq, what);
  }

  #breaks(seq: number, what: string): void {
    this.#broken = true;
    this.#check(false, seq, what);
  }

  #check(holds: boolean, seq: number, what: string): void {
    this.#checks++;
    if (holds) return;
    this.#violations++;
    if (this.#examples.length < MOST_EXAMPLES) this.#examples.push({ seq, what });
  }
}

function knownOf(shown: Shown | null): Known | null {
  if (shown === null) return null;
  if (shown.value_json !== null) return { text: canonicalExact(valueOfText(shown.value_json)) };
  return { digest: shown.value_digest ?? "" };
}

/** Null where it cannot be told: a value against the digest of a text. */
function sameValue(a: Known, b: Known | null): boolean | null {
  if (b === null) return false;
  if ("text" in a && "text" in b) return a.text === b.text;
  return "digest" in a && "digest" in b ? a.digest === b.digest : null;
}

/** Undefined where the event does not show it. */
function valueIn(shown: Shown | null): Value {
  return shown === null || shown.value_json === null ? undefined : valueOfText(shown.value_json);
}

function typeOf(value: Value): string {
  if (typeof value === "bigint") return "number";
  return Array.isArray(value) ? "list" : typeof value;
}
