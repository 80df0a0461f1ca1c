import { LIMITS } from "#core/limits.ts";
import type { EventBody, Payload } from "#trace/events/event.ts";

const KEPT = 3;

/** What went in and came out of the last calls: it stands beside an error, whatever else is kept. */
export class RecentCalls {
  #calls: Payload[] = [];

  see(event: EventBody): void {
    if (event.type === "tool_call_start") {
      const { call, tool = null, url = null } = event;
      const sent = shorten(event.arguments_json ?? textOf(event.body));
      const payload = { call, tool, url, sent: sent.text, received: null, truncated: sent.truncated };
      this.#calls = [...this.#calls.slice(1 - KEPT), payload];
    } else if (event.type === "tool_call_end") {
      const payload = this.#calls.find(({ call }) => call === event.call);
      if (payload === undefined) return;
      const { output_json, body } = event.answer ?? {};
      const received = shorten(output_json ?? textOf(body) ?? event.text);
      payload.received = received.text;
      payload.truncated ||= received.truncated;
    }
  }

  /** The oldest first. */
  payloads(): Payload[] {
    return this.#calls.map((payload) => ({ ...payload }));
  }
}

function shorten(text: string | null | undefined): { text: string | null; truncated: boolean } {
  if (text === null || text === undefined) return { text: null, truncated: false };
  const truncated = text.length > LIMITS.payloadChars;
  return { text: (truncated ? text.slice(0, LIMITS.payloadChars) : text).toWellFormed(), truncated };
}

/** For people: bytes that are no text show as U+FFFD here, and stand as they are where the call itself is kept. */
function textOf(bytes: Uint8Array | null | undefined): string | null {
  // A character takes at least one byte.
  return bytes ? new TextDecoder().decode(bytes.subarray(0, LIMITS.payloadChars + 4)) : null;
}
