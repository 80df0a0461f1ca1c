import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { DsecError, type ErrorCode } from "#core/errors.ts";
import type { SealedTrace } from "#trace/node/files.ts";

/** `sealed`: what is known of a trajectory that is a trace as it stands; null of one that a trace is to be made of. */
export type SealingRequest = { id: number; trajectory: string; sealed: SealedTrace | null };
export type SealingAnswer = { id: number } & (
  | { trace: SealedTrace }
  | { error: { code: ErrorCode; message: string } }
);

/** Makes traces of trajectories on a thread of its own, which also waits for the disk; several at once take turns there. */
export class Sealer {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PromiseWithResolvers<SealedTrace>>();
  #last = 0;
  readonly ready: Promise<void>;

  constructor() {
    this.#worker = new Worker(new URL("./sealing-thread.ts", import.meta.url), { execArgv: [] });
    this.#worker.on("message", (answer: SealingAnswer) => this.#answered(answer));
    this.#worker.on("error", (error) => this.#failAll(error));
    this.#worker.on("exit", () => this.#failAll(new Error("its thread has ended")));
    this.ready = once(this.#worker, "online").then(() => {
      if (this.#waiting.size === 0) this.#worker.unref();
    });
  }

  /**
   * Seals up to the last whole flush beside the trajectory, which is removed then.
   * @throws what sealTrajectory throws; the trajectory is still there
   */
  seal(trajectory: string): Promise<SealedTrace> {
    return this.#ask(trajectory, null);
  }

  /**
   * Gives a trajectory that is a trace as it stands its name as one, once it is on disk.
   * @throws what publishWritten throws; the trajectory is still there
   */
  publish(trajectory: string, sealed: SealedTrace): Promise<SealedTrace> {
    return this.#ask(trajectory, sealed);
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #ask(trajectory: string, sealed: SealedTrace | null): Promise<SealedTrace> {
    const id = ++this.#last;
    const waiting = Promise.withResolvers<SealedTrace>();
    this.#waiting.set(id, waiting);
    this.#worker.ref();
    this.#worker.postMessage({ id, trajectory, sealed } satisfies SealingRequest);
    return waiting.promise;
  }

  #answered(answer: SealingAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (this.#waiting.size === 0) this.#worker.unref();
    if ("trace" in answer) waiting?.resolve(answer.trace);
    else waiting?.reject(new DsecError(answer.error.code, answer.error.message));
  }

  #failAll(cause: Error): void {
    for (const waiting of this.#waiting.values()) {
      waiting.reject(
        new DsecError("STORE_UNAVAILABLE", `a trajectory could not be sealed: ${cause.message}`, { cause }),
      );
    }
    this.#waiting.clear();
  }
}
