import { LIMITS } from "#core/limits.ts";
import type { EventBody, Payload } from "#trace/events/event.ts";

const KEPT = 3;
/** No fewer than the characters that are shown take: three for a UTF-16 unit. */
const SHOWN_BYTES = 3 * LIMITS.payloadChars;

type Content = string | Uint8Array | null;
type RecentCall = { call: number; tool: string | null; url: string | null; sent: Content; received: Content };

/** What went in and came out of the last calls: it stands beside an error, whatever else is kept. */
export class RecentCalls {
  #calls: RecentCall[] = [];

  see(event: EventBody): void {
    if (event.type === "tool_call_start") {
      const { call, tool = null, url = null } = event;
      if (this.#calls.length === KEPT) this.#calls.shift();
      const sent = contentOf(event.arguments_json ?? event.body);
      this.#calls.push({ call, tool, url, sent, received: null });
    } else if (event.type === "tool_call_end") {
      const ended = this.#calls.find(({ call }) => call === event.call);
      if (ended === undefined) return;
      const { output_json, body } = event.answer ?? {};
      ended.received = contentOf(output_json ?? body ?? event.text);
    }
  }

  /** The oldest first. Shortened here alone, for few calls are followed by an error. */
  payloads(): Payload[] {
    return this.#calls.map((recent) => {
      const sent = textOf(recent.sent);
      const received = textOf(recent.received);
      const truncated = [sent, received].some((text) => text !== null && text.length > LIMITS.payloadChars);
      return { ...recent, sent: shown(sent), received: shown(received), truncated };
    });
  }
}

/** Of bytes no more than is shown: they may be views on many more. */
function contentOf(content: Content | undefined): Content {
  if (!(content instanceof Uint8Array)) return content ?? null;
  return content.length <= SHOWN_BYTES ? content : new Uint8Array(content.subarray(0, SHOWN_BYTES + 3));
}

/** For people: bytes that are no text show as U+FFFD here, and stand as they are where the call itself is kept. */
function textOf(content: Content): string | null {
  return content instanceof Uint8Array ? new TextDecoder().decode(content) : content;
}

function shown(text: string | null): string | null {
  return text === null ? null : text.slice(0, LIMITS.payloadChars).toWellFormed();
}
