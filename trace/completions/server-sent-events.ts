import { GrowingBytes } from "./growing-bytes.ts";

/**
 * The data of server-sent events (HTML standard, section 9.2.6) out of bytes as they come. What a stream may make this hold
 * is bounded: an event that is larger is passed over, and those after it are read.
 */
export class ServerSentData {
  readonly #onData: (data: string) => void;
  readonly #maxBytes: number;
  /** The line that has not ended, and how long it is where it is passed over. */
  readonly #line = new GrowingBytes();
  #lineBytes = 0;
  #data: string[] = [];
  #dataBytes = 0;
  #state: "reading" | "passing over" = "reading";
  /** The line before ended with a carriage return, to which a line feed that comes next belongs. */
  #afterReturn = false;

  /** @param maxBytes of one event */
  constructor(onData: (data: string) => void, maxBytes: number) {
    this.#onData = onData;
    this.#maxBytes = maxBytes;
  }

  get heldBytes(): number {
    return this.#state === "reading" ? this.#lineBytes + this.#dataBytes : 0;
  }

  push(bytes: Uint8Array): void {
    let at = 0;
    if (this.#afterReturn && bytes.length > 0) {
      this.#afterReturn = false;
      if (bytes[0] === LF) at = 1;
    }
    let [feed, back] = [bytes.indexOf(LF, at), bytes.indexOf(CR, at)];
    while (feed >= 0 || back >= 0) {
      const isBack = back >= 0 && (feed < 0 || back < feed);
      const end = isBack ? back : feed;
      this.#endLine(bytes.subarray(at, end));
      at = end + 1;
      if (isBack && at === bytes.length) this.#afterReturn = true;
      else if (isBack && bytes[at] === LF) at++;
      if (feed >= 0 && feed < at) feed = bytes.indexOf(LF, at);
      if (back >= 0 && back < at) back = bytes.indexOf(CR, at);
    }
    this.#take(bytes.subarray(at));
  }

  /** The standard drops an event that no blank line ends; who reads JSON sees for itself whether it is whole. */
  end(): void {
    this.#endLine(NO_BYTES);
    this.#endEvent();
  }

  #take(bytes: Uint8Array): void {
    if (this.#mayHold(bytes)) this.#line.append(bytes);
  }

  #mayHold(bytes: Uint8Array): boolean {
    this.#lineBytes += bytes.length;
    if (this.heldBytes > this.#maxBytes) {
      this.#state = "passing over";
      this.#line.clear();
      this.#data = [];
      this.#dataBytes = 0;
    }
    return this.#state === "reading" && bytes.length > 0;
  }

  /** @param rest what the line has beside what is held of it */
  #endLine(rest: Uint8Array): void {
    const holds = this.#mayHold(rest);
    if (this.#lineBytes === 0) this.#endEvent();
    else if (this.#state === "reading") {
      // Most lines come whole, and are not copied.
      const isWhole = this.#line.length === 0;
      if (holds && !isWhole) this.#line.append(rest);
      this.#field(isWhole ? rest : this.#line.view());
    }
    this.#line.clear();
    this.#lineBytes = 0;
  }

  #field(bytes: Uint8Array): void {
    const line = decoder.decode(bytes);
    if (!line.startsWith("data")) return; // a comment, or a field that JSON does not need
    if (line.length === 4) this.#data.push("");
    else if (line[4] === ":") this.#data.push(line.slice(line[5] === " " ? 6 : 5));
    else return;
    // An empty line of data is held as well.
    this.#dataBytes += bytes.length;
  }

  #endEvent(): void {
    const data = this.#data;
    this.#state = "reading";
    this.#data = [];
    this.#dataBytes = 0;
    if (data.length > 0) this.#onData(data.length === 1 ? data[0]! : data.join("\n"));
  }
}

const NO_BYTES = new Uint8Array();
const LF = 0x0a;
const CR = 0x0d;
/** What is no UTF-8 becomes U+FFFD, and a byte-order mark is left out, both as the standard has it. */
const decoder = new TextDecoder();
