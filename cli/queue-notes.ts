import type { TaskEvent } from "#core/wire/tasks.ts";
import type { Client } from "#sdk/client.ts";
import { note } from "./program.ts";
import { plainLine } from "./terminal.ts";

/** A task that waits no longer than this waits for nothing that its client could change. */
const FIRST_MS = 2_000;
const AGAIN_MS = 3_000;
const AGAIN_MS_MAX = 60_000;

/** Passes a task's events on, and says on standard error why the task waits while it is queued, as often as that changes. */
export async function* withQueueNotes(
  client: Client,
  id: string,
  events: AsyncIterable<TaskEvent>,
): AsyncGenerator<TaskEvent> {
  let timer: NodeJS.Timeout | undefined;
  let said = "";
  const askIn = (ms: number, againMs: number) => {
    const asked = setTimeout(async () => {
      // What keeps the gateway from answering is for whoever reads the events to say.
      const answer = await client.tasks.whyQueued(id).catch(() => null);
      if (timer !== asked) return;
      const message = answer?.wait?.message;
      if (message !== undefined && message !== said) note(`dsec: ${id} waits: ${plainLine(message)}`);
      said = message ?? said;
      askIn(againMs, Math.min(AGAIN_MS_MAX, 2 * againMs));
    }, ms);
    timer = asked;
  };
  const stop = () => {
    clearTimeout(timer);
    timer = undefined;
  };
  try {
    for await (const event of events) {
      if (event.type === "state") {
        stop();
        if (event.state === "queued") askIn(FIRST_MS, AGAIN_MS);
      }
      yield event;
    }
  } finally {
    stop();
  }
}
