/** One dispatched event of a `text/event-stream` body. */
export type ServerEvent = { id: string; event: string; data: string };

/** More than any event of ours by far; an endless line must not fill the memory. */
const EVENT_CHARS_MAX = 4 * 1024 * 1024;

/**
 * Parses a `text/event-stream` body (HTML standard, section 9.2.6). Yields `"alive"` for every comment, which is
 * how a quiet stream shows that it still stands. An event that is cut off by the end of the body is dropped.
 */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent | "alive"> {
  let id = "";
  let event = "";
  let data: string[] = [];
  for await (const line of lines(body)) {
    if (line === "") {
      if (data.length > 0) yield { id, event: event || "message", data: data.join("\n") };
      event = "";
      data = [];
      continue;
    }
    if (line.startsWith(":")) {
      yield "alive";
      continue;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") data.push(value);
    else if (field === "event") event = value;
    else if (field === "id" && !value.includes("\0")) id = value;
  }
}

/** Lines ended by CR LF, LF or CR. The rest without an ending is not a line yet, and never becomes one. */
async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  // A decoder of its own: piping through a stream of one costs each event several turns of the event loop.
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  let skipNewline = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      let start = 0;
      for (let i = 0; i < rest.length; i++) {
        const char = rest[i];
        if (skipNewline) {
          skipNewline = false;
          if (char === "\n") {
            start = i + 1;
            continue;
          }
        }
        if (char !== "\n" && char !== "\r") continue;
        yield rest.slice(start, i);
        start = i + 1;
        // the LF of a CR LF may come with the next chunk
        skipNewline = char === "\r";
      }
      rest = rest.slice(start);
      if (rest.length > EVENT_CHARS_MAX)
        throw new Error(`an event line is longer than ${EVENT_CHARS_MAX} characters`);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
