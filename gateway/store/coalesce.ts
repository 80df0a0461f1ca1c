import { nextTurn } from "../next-turn.ts";
import { isPoison } from "./sql.ts";

/**
 * Turns concurrent calls of a single-item operation into few batched statements. A call that comes alone goes
 * out on the next turn of the event loop; while batches are in flight, further calls gather. This is where the
 * queue's throughput comes from: one statement and one commit for up to 256 calls.
 */
export type Coalesced<Item, Result> = (item: Item) => Promise<Result>;

export type BatchOptions<Item, Result> = {
  /** Answers in the order of the items; an Error in place of a result rejects that one call. */
  run(items: Item[]): Promise<(Result | Error)[]>;
  /** A batch holds items up to this total weight, and at least one. */
  weightMax?: number;
  weigh?(item: Item): number;
  inFlightMax?: number;
};

export function coalesce<Item, Result>(options: BatchOptions<Item, Result>): Coalesced<Item, Result> {
  const { run, weightMax = 256, weigh = () => 1, inFlightMax = 2 } = options;
  type Call = { item: Item; resolve(result: Result): void; reject(error: unknown): void };
  let waiting: Call[] = [];
  let inFlight = 0;
  let scheduled = false;

  function schedule(): void {
    if (scheduled || inFlight >= inFlightMax || waiting.length === 0) return;
    scheduled = true;
    // Calls which came in together leave together.
    nextTurn(() => {
      scheduled = false;
      while (inFlight < inFlightMax && waiting.length > 0) void send(takeBatch());
    });
  }

  function takeBatch(): Call[] {
    let count = 0;
    for (let weight = 0; count < waiting.length; count++) {
      weight += weigh(waiting[count]!.item);
      if (count > 0 && weight > weightMax) break;
    }
    const batch = waiting.slice(0, count);
    waiting = waiting.slice(count);
    return batch;
  }

  async function send(batch: Call[]): Promise<void> {
    inFlight++;
    try {
      await settle(batch);
    } finally {
      inFlight--;
      schedule();
    }
  }

  async function settle(batch: Call[]): Promise<void> {
    let results: (Result | Error)[];
    try {
      results = await run(batch.map((call) => call.item));
    } catch (error) {
      if (batch.length === 1 || !isPoison(error)) {
        for (const call of batch) call.reject(error);
        return;
      }
      // One bad item must not take the others down with it.
      for (const call of batch) await settle([call]);
      return;
    }
    batch.forEach((call, i) => {
      const result = results[i];
      if (result instanceof Error) call.reject(result);
      else call.resolve(result as Result);
    });
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      schedule();
    });
}
