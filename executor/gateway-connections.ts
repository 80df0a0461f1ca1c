import { Readable } from "node:stream";
import { type Dispatcher, Pool } from "undici";
import { ByteQueue } from "#core/byte-queue.ts";
import { LIMITS } from "#core/limits.ts";

/** An answer whose head has come. The body is read once; whoever stops before its end closes the connection. */
export type GatewayAnswer = {
  status: number;
  /** Null where it is absent. @param name in lower case */
  header(name: string): string | null;
  body: AsyncIterable<Uint8Array>;
};

/**
 * Kept connections to one gateway: what fetch makes around each request (Request, Response, Headers, signals, web
 * streams) takes several times as long as the request.
 */
export class GatewayConnections {
  readonly #origin: string;
  readonly #prefix: string;
  #pool: Pool | null = null;

  constructor(gatewayUrl: string) {
    const { origin, pathname } = new URL(gatewayUrl);
    this.#origin = origin;
    this.#prefix = pathname.replace(/\/+$/, "");
  }

  /**
   * Rejects, as reading the body does, with the signal's reason, with a TimeoutError where the whole exchange takes
   * longer than `timeoutMs`, or with what broke the connection. The request is made once, whatever happens.
   */
  request(
    method: "GET" | "POST" | "PUT",
    path: string,
    headers: Record<string, string>,
    content: Blob | Uint8Array | string | null,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  ): Promise<GatewayAnswer> {
    // Nothing is said of time by the pool: a call's answer may be silent for as long as the call may take.
    this.#pool ??= new Pool(this.#origin, {
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: LIMITS.callHeaderBytes,
    });
    const pool = this.#pool;
    return new Promise((resolve, reject) => {
      let stop: ((reason: unknown) => void) | null = null;
      let body: ByteQueue | null = null;
      let ended: { reason: unknown } | null = null;
      const end = (reason: unknown) => {
        ended ??= { reason };
        stop?.(reason);
      };
      const leave = () => end(signal.reason);
      const timer = setTimeout(() => end(timedOut(timeoutMs)), timeoutMs);
      const over = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", leave);
      };
      const handler: Dispatcher.DispatchHandler = {
        onRequestStart(controller) {
          stop = (reason) => controller.abort(reason as Error);
          if (ended !== null) stop(ended.reason);
        },
        onResponseStart(controller, status) {
          if (status < 200) return;
          const raw = controller.rawHeaders;
          body = new ByteQueue({
            pause: () => controller.pause(),
            resume: () => controller.resume(),
            stop() {
              over();
              if (!controller.aborted) controller.abort(new Error("the answer is not wanted"));
            },
          });
          resolve({ status, header: (name) => fieldIn(raw, name), body });
        },
        onResponseData(_controller, chunk) {
          body?.push(chunk);
        },
        onResponseEnd() {
          over();
          body?.end();
        },
        onResponseError(_controller, error) {
          over();
          const reason = ended === null ? error : ended.reason;
          if (body === null) reject(reason);
          else body.fail(reason);
        },
      };
      if (signal.aborted) leave();
      else signal.addEventListener("abort", leave, { once: true });
      if (ended !== null) {
        over();
        reject(signal.reason);
        return;
      }
      const target = { method, path: this.#prefix + path };
      // A Blob of the executor's lies in a file: undici itself would read it into memory whole.
      const sent =
        content instanceof Blob
          ? {
              headers: { ...headers, "content-length": String(content.size) },
              body: Readable.fromWeb(content.stream() as never),
            }
          : { headers, body: content };
      pool.dispatch({ ...target, ...sent }, handler);
    });
  }
}

function fieldIn(raw: Dispatcher.DispatchController["rawHeaders"], wanted: string): string | null {
  if (!Array.isArray(raw)) return null;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    if (String(raw[i]).toLowerCase() === wanted) return String(raw[i + 1]);
  }
  return null;
}

function timedOut(timeoutMs: number): DOMException {
  return new DOMException(`no answer within ${timeoutMs} ms`, "TimeoutError");
}
