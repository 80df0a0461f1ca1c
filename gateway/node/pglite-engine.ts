import { once } from "node:events";
import { Duplex } from "node:stream";
import { Worker } from "node:worker_threads";
import { DsecError } from "#core/errors.ts";
import { SESSION } from "#gateway/store/postgres-driver.ts";

/**
 * PGlite in a thread of its own, reached like a PostgreSQL server: over a stream that speaks its protocol. In the main
 * thread every statement would hold up all else, an executor in the same process included.
 */
export class PgliteEngine {
  readonly #thread: Worker;
  #connection: Connection | null = null;
  #state: "open" | "closing" | "ended" = "open";

  /** @param data a database folder, or one that is empty or absent and becomes one */
  static async start(data: string): Promise<PgliteEngine> {
    // Without this process's own flags: --input-type, for one, is no flag for a thread that runs a file.
    const thread = new Worker(new URL("./pglite-thread.ts", import.meta.url), {
      workerData: { data, settings: SESSION },
      execArgv: [],
    });
    await once(thread, "message"); // rejects with what kept it from opening
    return new PgliteEngine(thread);
  }

  private constructor(thread: Worker) {
    this.#thread = thread;
    thread.on("message", (bytes: Uint8Array) => this.#connection?.push(Buffer.from(bytes.buffer)));
    thread.on("error", (error) => this.#onEnd(error));
    thread.on("exit", () => this.#onEnd());
  }

  /** The one connection there is at a time. Fails with STORE_UNAVAILABLE once the thread has ended. */
  connect(): Duplex {
    const connection = new Connection(this.#thread);
    if (this.#state === "open") this.#connection = connection;
    // Not thrown: postgres.js would keep the place of a connection that never came. And not before it listens.
    else setImmediate(() => connection.destroy(ended()));
    return connection;
  }

  /** Closes the database: whoever opens its folder next finds nothing to recover. */
  async close(): Promise<void> {
    if (this.#state !== "open") return;
    this.#state = "closing";
    const exited = once(this.#thread, "exit");
    this.#thread.postMessage("close");
    await exited;
  }

  #onEnd(error?: Error): void {
    this.#state = "ended";
    this.#connection?.destroy(error);
  }
}

function ended(): DsecError {
  return new DsecError("STORE_UNAVAILABLE", "the embedded database has ended; start this process again");
}

class Connection extends Duplex {
  /** What postgres.js asks a socket before it says goodbye to it. */
  readonly readyState = "open";
  readonly #thread: Worker;

  constructor(thread: Worker) {
    super();
    this.#thread = thread;
  }

  override _read(): void {} // the thread sends what it has

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    // A copy, for a small chunk is a part of Node's shared pool, which cannot be given away.
    const bytes = new Uint8Array(chunk);
    this.#thread.postMessage(bytes, [bytes.buffer]);
    done();
  }

  override _final(done: (error?: Error) => void): void {
    done();
    // Whoever has said goodbye reads no more: an end that waits to be read would never be one.
    this.destroy();
  }
}
