/**
 * One event as its bytes, of which only the members that are asked for are read: a search looks at millions of events and
 * at one or two members of each.
 */
import { DsecError } from "#core/errors.ts";
import { digestOf } from "#core/json.ts";
import { EVENT_TYPES, type EventType } from "#trace/events/event.ts";
import { type EventPlace, placeBytes, writePlace } from "#trace/events/place.ts";
import { PLANS } from "#trace/events/plans.ts";
import { DELIMITED, VARINT, WireReader } from "#trace/events/wire.ts";
import { type Kind, MEMBERS, type Member, TIMING_FIELDS } from "./members.ts";
import { Unshown, type Value, valueOfText } from "./value.ts";

/** An event without what it lay in. */
export type Kept = EventPlace & { body: Uint8Array };

export class EventView {
  seq = 0;
  t_us = 0;
  wall_skew_us = 0;
  type: EventType = "error";
  /** What the event lies in, and from where to where its bytes after its place do. */
  content: Uint8Array = NOTHING;
  from = 0;
  to = 0;
  #reader = new WireReader(NOTHING);
  #bodyFrom = 0;
  #bodyTo = 0;
  /** Where the member that was found lies, and its number where it is one. */
  #start = 0;
  #end = 0;
  #number = 0;

  /**
   * @param reader over the whole content, so that none is made for each event
   * @param from of the event's bytes after its place
   * @throws TRACE_CORRUPT, or TRACE_UNSUPPORTED for a type that this version does not know
   */
  load(reader: WireReader, from: number, to: number, seq: number, t_us: number, wallSkewUs: number): void {
    this.#reader = reader;
    this.content = reader.bytes;
    this.from = from;
    this.to = to;
    this.seq = seq;
    this.t_us = t_us;
    this.wall_skew_us = wallSkewUs;
    reader.at = from;
    const tag = from < to ? reader.varint() : 0;
    const type = (tag & 7) === DELIMITED ? TYPE_OF_FIELD[tag >>> 3] : undefined;
    if (type === undefined) {
      throw new DsecError(
        "TRACE_UNSUPPORTED",
        `event ${seq} is of a type that this version does not know; read it with a newer dsec`,
      );
    }
    this.type = type;
    this.#bodyTo = reader.delimited();
    this.#bodyFrom = reader.at;
    if (this.#bodyTo > to) throw this.#corrupt("a length leads past its end");
  }

  /** The event's own bytes, which go on when the content is let go. */
  copy(): Uint8Array {
    const { seq, t_us, wall_skew_us } = this;
    const before = placeBytes(seq, t_us, wall_skew_us);
    const bytes = new Uint8Array(before + this.to - this.from);
    writePlace(bytes, 0, seq, t_us, wall_skew_us);
    bytes.set(this.content.subarray(this.from, this.to), before);
    return bytes;
  }

  /** What `loadKept` takes once the content is let go. */
  keep(): Kept {
    const { seq, t_us, wall_skew_us } = this;
    return { seq, t_us, wall_skew_us, body: this.content.slice(this.from, this.to) };
  }

  loadKept({ seq, t_us, wall_skew_us, body }: Kept): void {
    this.load(new WireReader(body), 0, body.length, seq, t_us, wall_skew_us);
  }

  /** The number of the call that the event belongs to, or null. */
  call(): number | null {
    const field = CALL_FIELD[this.type];
    return field !== undefined && this.#find(field, this.#bodyFrom, this.#bodyTo) ? this.#number : null;
  }

  /** A member's value, without lists: those are decoded with the whole event. */
  value([field, kind]: Member): Value {
    const found = this.#find(field, this.#bodyFrom, this.#bodyTo);
    if (!found) return kind.endsWith("?") ? null : DEFAULTS[kind as Kind];
    return this.#found(kind.replace("?", "") as Kind);
  }

  /** The text of a member, or null where it is absent. */
  text(field: number): string | null {
    return this.#find(field, this.#bodyFrom, this.#bodyTo) ? this.#text() : null;
  }

  /** The integer or boolean of a member, or null where it is absent. */
  integer(field: number): number | null {
    return this.#find(field, this.#bodyFrom, this.#bodyTo) ? this.#number : null;
  }

  /** The bytes of a member, or null where it is absent. */
  raw(field: number): Uint8Array | null {
    return this.#find(field, this.#bodyFrom, this.#bodyTo)
      ? this.content.subarray(this.#start, this.#end)
      : null;
  }

  /** Whether a member is exactly this text, in UTF-8. */
  textIs(field: number, wanted: Uint8Array): boolean {
    if (!this.#find(field, this.#bodyFrom, this.#bodyTo)) return wanted.length === 0;
    return this.#isFound(wanted);
  }

  /** Which of these texts a member is exactly, -1 where it is none of them. One that is absent is the empty text. */
  textAmong(field: number, wanted: readonly Uint8Array[]): number {
    if (!this.#find(field, this.#bodyFrom, this.#bodyTo))
      return wanted.findIndex(({ length }) => length === 0);
    for (let at = 0; at < wanted.length; at++) if (this.#isFound(wanted[at]!)) return at;
    return -1;
  }

  #isFound(wanted: Uint8Array): boolean {
    const bytes = this.content;
    const start = this.#start;
    if (this.#end - start !== wanted.length) return false;
    for (let at = 0; at < wanted.length; at++) if (bytes[start + at] !== wanted[at]) return false;
    return true;
  }

  /** What a call was answered: the tool's output, or the body of an agent's own call. */
  answer(field: number): Value {
    if (!this.#find(field, this.#bodyFrom, this.#bodyTo)) return null;
    const from = this.#start;
    const to = this.#end;
    if (this.#find(1, from, to) || this.#find(3, from, to)) return valueOfText(this.#text());
    return null;
  }

  /** Status, headers, URL and redirects of an agent's own call. */
  answerHead(field: number): Value {
    if (!this.#find(field, this.#bodyFrom, this.#bodyTo)) return null;
    return this.#find(2, this.#start, this.#end) ? valueOfText(this.#text()) : null;
  }

  #found(kind: Kind): Value {
    switch (kind) {
      case "integer":
        return this.#number;
      case "boolean":
        return this.#number !== 0;
      case "number":
        if (this.#end - this.#start !== 8) throw this.#corrupt("a number has other than 8 bytes");
        return new DataView(this.content.buffer, this.content.byteOffset).getFloat64(this.#start, true);
      case "text":
      case "bytes":
        return this.#text();
      case "digest":
        if (this.#end - this.#start !== 32) throw this.#corrupt("a digest has other than 32 bytes");
        return digestOf(this.content.subarray(this.#start, this.#end));
      case "shown":
        return this.#shown(this.#start, this.#end);
      case "timing":
        return this.#timing(this.#start, this.#end);
      default:
        throw new Error(`a ${kind} is not read by itself`);
    }
  }

  #shown(from: number, to: number): Value {
    if (this.#find(1, from, to)) return valueOfText(this.#text());
    const digest = this.#find(2, from, to) ? digestOf(this.content.subarray(this.#start, this.#end)) : null;
    return new Unshown(digest, this.#find(3, from, to) ? this.#number : null);
  }

  #timing(from: number, to: number): Value {
    const timing: Record<string, Value> = {};
    for (const [name, field] of Object.entries(TIMING_FIELDS))
      timing[name] = this.#find(field, from, to) ? this.#number : null;
    return timing;
  }

  #text(): string {
    const bytes = this.content;
    const start = this.#start;
    const end = this.#end;
    if (end - start > 24) return decoder.decode(bytes.subarray(start, end));
    // Most names are short and plain, for which a decoder's call costs more than the text.
    let text = "";
    for (let at = start; at < end; at++) {
      const byte = bytes[at]!;
      if (byte >= 0x80) return decoder.decode(bytes.subarray(start, end));
      text += String.fromCharCode(byte);
    }
    return text;
  }

  #corrupt(why: string): DsecError {
    return new DsecError("TRACE_CORRUPT", `event ${this.seq}: ${why}`);
  }

  /** The last of its number counts, as in every reader of the wire format. */
  #find(field: number, from: number, to: number): boolean {
    const reader = this.#reader;
    reader.at = from;
    let found = false;
    while (reader.at < to) {
      const tag = reader.varint();
      const wireType = tag & 7;
      if (tag >>> 3 !== field) {
        reader.skip(wireType);
        continue;
      }
      found = true;
      this.#start = reader.at;
      if (wireType === VARINT) this.#number = reader.varint();
      else if (wireType === DELIMITED) {
        const end = reader.delimited();
        this.#start = reader.at;
        reader.at = end;
      } else reader.skip(wireType);
      this.#end = reader.at;
    }
    if (reader.at > to) throw this.#corrupt("a length leads past its end");
    return found;
  }
}

const NOTHING = new Uint8Array(0);

const TYPE_OF_FIELD: EventType[] = [];
for (const { name, tag, message } of PLANS.Event.fields) {
  if (message !== null) TYPE_OF_FIELD[tag >>> 3] = name as EventType;
}

const CALL_FIELD: { [T in EventType]?: number } = {};
for (const type of EVENT_TYPES) {
  const members = MEMBERS[type] as Readonly<Record<string, Member>>;
  if (members.call !== undefined) CALL_FIELD[type] = members.call[0];
}

const DEFAULTS: Readonly<Record<Kind, Value>> = {
  integer: 0,
  number: 0,
  text: "",
  boolean: false,
  bytes: "",
  digest: null,
  shown: null,
  timing: null,
  answer: null,
  list: [],
};

const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
