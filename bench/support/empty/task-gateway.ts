/**
 * `task-gateway.ts DATABASE`: the gateway of an empty chain. A task and its output are rows; whoever waits for either is
 * told once they are stored.
 *
 *   POST /tasks               a task, whose number is the answer
 *   GET  /next                the number of the next task, when there is one
 *   POST /tasks/N/output      a piece of its output; an empty one is its end
 *   GET  /tasks/N/events      its output as server-sent events
 */
import type { ServerResponse } from "node:http";
import { insertion, serve } from "./http.ts";

/** What was sent and waits for its receiver, or the other way round. */
class Mailbox<Item> {
  readonly #items: Item[] = [];
  #receiver: ((item: Item) => void) | null = null;

  send(item: Item): void {
    if (this.#receiver === null) this.#items.push(item);
    else this.#receiver(item);
    this.#receiver = null;
  }

  receive(): Promise<Item> {
    if (this.#items.length > 0) return Promise.resolve(this.#items.shift()!);
    return new Promise((resolve) => {
      this.#receiver = resolve;
    });
  }
}

const [database] = process.argv.slice(2) as [string];
const store = await insertion(database, "tasks");
const queue = new Mailbox<number>();
/** by the number of the task */
const outputs: Mailbox<Buffer>[] = [];

serve(0, async ({ method, url }, body, response) => {
  const [, , task, what] = url!.split("/");
  const output = outputs[Number(task)];
  if (method === "GET" && url === "/next") return Buffer.from(`${await queue.receive()}`);
  if (method === "GET" && what === "events") return follow(output!, response);
  await store(body.toString());
  if (output === undefined) {
    const number = outputs.push(new Mailbox()) - 1;
    queue.send(number);
    return Buffer.from(`${number}`);
  }
  output.send(body);
  return Buffer.alloc(0);
});

async function follow(output: Mailbox<Buffer>, response: ServerResponse): Promise<null> {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (let piece = await output.receive(); piece.length > 0; piece = await output.receive())
    response.write(`data: ${JSON.stringify(piece.toString())}\n\n`);
  response.end();
  return null;
}
