import type { TaskEvent } from "#core/wire/tasks.ts";
import type { Client } from "#sdk/client.ts";
import { note } from "./program.ts";
import { plainLine } from "./terminal.ts";

/** A task that waits no longer than this waits for nothing that its client could change. */
const FIRST_MS = 2_000;
const AGAIN_MS = 3_000;
const AGAIN_MS_MAX = 60_000;

/** Says on standard error why a task that is followed waits, as often as that changes. */
export class QueueNotes {
  readonly #client: Client;
  readonly #id: string;
  #timer: NodeJS.Timeout | undefined;
  #said = "";

  constructor(client: Client, id: string) {
    this.#client = client;
    this.#id = id;
  }

  heard(event: TaskEvent): void {
    if (event.type !== "state") return;
    this.close();
    if (event.state === "queued") this.#askIn(FIRST_MS, AGAIN_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #askIn(ms: number, againMs: number): void {
    const timer = setTimeout(async () => {
      // What keeps the gateway from answering is for whoever follows the task to say.
      const answer = await this.#client.tasks.whyQueued(this.#id).catch(() => null);
      if (this.#timer !== timer) return;
      const message = answer?.wait?.message;
      if (message !== undefined && message !== this.#said) {
        note(`dsec: ${this.#id} waits: ${plainLine(message)}`);
        this.#said = message;
      }
      this.#askIn(againMs, Math.min(AGAIN_MS_MAX, 2 * againMs));
    }, ms);
    this.#timer = timer;
  }
}
