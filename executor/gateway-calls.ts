import type { z } from "zod";
import { DsecError } from "#core/errors.ts";
import type { ExecutorId } from "#core/ids.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { faultText, readAs } from "#core/schema-faults.ts";
import { ErrorBodySchema } from "#core/wire/common.ts";
import { GatewayClock } from "./gateway-clock.ts";
import { type GatewayAnswer, GatewayConnections } from "./gateway-connections.ts";
import type { Identity } from "./identity.ts";
import { unlessAborted } from "./retry.ts";

/** A gateway app's own, in the same process. */
export type Fetch = (request: Request) => Response | Promise<Response>;

export type Method = "GET" | "POST" | "PUT";
type Content = Blob | Uint8Array<ArrayBuffer> | string | null;

const NEVER = new AbortController().signal;

export type CallOptions = {
  json?: unknown;
  body?: Blob | Uint8Array<ArrayBuffer>;
  /** of the body, which otherwise is application/octet-stream */
  contentType?: string;
  idempotencyKey?: string;
  /** in place of the executor's own token */
  apiKey?: string;
  signal?: AbortSignal;
  /** how long the answer may take beyond the usual */
  waitMs?: number;
};

/** An answer comes within this, or the gateway counts as unreachable. Long polls have their wait on top. */
const ANSWER_TIMEOUT_MS = 10_000;

/**
 * How an executor calls its gateway, whatever the call: by its token, within a time, once. What is no good answer is
 * thrown: the gateway's own refusal, or GATEWAY_UNREACHABLE.
 */
export class GatewayCalls {
  /** Without a slash at its end. */
  readonly url: string;
  readonly clock = new GatewayClock();
  readonly #way: { in: "process"; fetch: Fetch } | { in: "network"; connections: GatewayConnections };
  readonly #identity: Identity;
  #enrolled: { executorId: ExecutorId; issuer: string } | null = null;
  #token: { text: string; useUntilMs: number } | null = null;

  /** @param options.fetch in place of HTTP */
  constructor(options: { gatewayUrl: string; fetch?: Fetch | undefined; identity: Identity }) {
    this.url = options.gatewayUrl.replace(/\/+$/, "");
    const { fetch } = options;
    this.#way = fetch
      ? { in: "process", fetch }
      : { in: "network", connections: new GatewayConnections(this.url) };
    this.#identity = options.identity;
  }

  /** Who the executor is to the gateway from now on. */
  enrolled(executorId: ExecutorId, issuer: string): void {
    this.#enrolled = { executorId, issuer };
    this.#token = null;
  }

  /** A call that is answered with JSON of this schema. */
  async json<Schema extends z.ZodType>(
    schema: Schema,
    method: Method,
    path: string,
    options: CallOptions,
  ): Promise<z.output<Schema>> {
    const { body } = await this.call(method, path, options);
    let answer: unknown;
    try {
      answer = parseJson(await bytesOf(body), `answer to ${method} ${path}`);
    } catch (cause) {
      options.signal?.throwIfAborted();
      throw this.#unreachable(method, path, "its answer is cut off or not JSON", cause);
    }
    const read = readAs(schema, answer);
    if (read.ok) return read.value;
    throw this.#unreachable(method, path, `its answer is not of this protocol: ${faultText(read.faults[0])}`);
  }

  /** A call whose answer says nothing but that it was made. */
  async done(method: Method, path: string, options: CallOptions): Promise<void> {
    const { body } = await this.call(method, path, options);
    // To its end, so that the connection is kept; the call was made, whatever breaks now.
    await bytesOf(body).catch(() => {});
  }

  async call(method: Method, path: string, options: CallOptions): Promise<GatewayAnswer> {
    const first = await this.#answer(method, path, options, options.apiKey ?? this.bearer());
    if (!(first instanceof DsecError)) return first;
    // The token may have been made by a clock that this very answer has corrected: once more with a new one.
    if (first.code === "UNAUTHENTICATED" && options.apiKey === undefined) {
      this.#token = null;
      const second = await this.#answer(method, path, options, this.bearer());
      if (!(second instanceof DsecError)) return second;
    }
    throw first;
  }

  /** A good answer, or the refusal that it is. */
  async #answer(
    method: Method,
    path: string,
    options: CallOptions,
    bearer: string,
  ): Promise<GatewayAnswer | DsecError> {
    const headers: Record<string, string> = { authorization: `Bearer ${bearer}` };
    let body: Content = options.body ?? null;
    if (options.idempotencyKey !== undefined) headers["idempotency-key"] = options.idempotencyKey;
    if (options.json !== undefined) {
      headers["content-type"] = "application/json";
      body = JSON.stringify(options.json);
    } else if (body !== null) {
      headers["content-type"] = options.contentType ?? "application/octet-stream";
    }
    const { signal = NEVER } = options;
    const timeoutMs = ANSWER_TIMEOUT_MS + (options.waitMs ?? 0);
    const sentAtMs = performance.now();
    let answer: GatewayAnswer;
    try {
      answer =
        this.#way.in === "network"
          ? await this.#way.connections.request(method, path, headers, body, { timeoutMs, signal })
          : await this.#fetched(this.#way.fetch, path, {
              ...{ method, headers, body },
              signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
            });
    } catch (cause) {
      signal.throwIfAborted();
      throw this.#unreachable(method, path, (cause as Error).message, cause);
    }
    this.clock.observe(answer.header("date"), sentAtMs, performance.now());
    if (answer.status >= 200 && answer.status < 300) return answer;
    let text: string;
    try {
      text = Buffer.from(await bytesOf(answer.body, LIMITS.requestBodyBytes)).toString("utf8");
    } catch (cause) {
      throw this.#unreachable(method, path, "its answer broke off", cause);
    }
    return this.#refusal(method, path, answer.status, answer.header("retry-after"), text);
  }

  /** By the gateway of this process. It answers when it likes; an abort or the time limit does not wait for it. */
  async #fetched(
    fetch: Fetch,
    path: string,
    init: RequestInit & { signal: AbortSignal },
  ): Promise<GatewayAnswer> {
    const answering = Promise.resolve(fetch(new Request(this.url + path, init)));
    const response = await unlessAborted(answering, init.signal).catch((reason: unknown) => {
      // An answer that comes to nobody has to be told so, as a broken connection tells: some bring what they began to its end.
      answering.then(({ body }) => body?.cancel()).catch(() => {});
      throw reason;
    });
    return {
      status: response.status,
      header: (name) => response.headers.get(name),
      body: (response.body ?? new Blob([]).stream()) as AsyncIterable<Uint8Array> &
        ReadableStream<Uint8Array>,
    };
  }

  /** The executor's own token, made anew where it is getting old. */
  bearer(): string {
    if (this.#enrolled === null) throw new Error("the executor calls its gateway before it has enrolled");
    const nowMs = this.clock.nowMs();
    // Also renewed where the clock was corrected backwards, for the token would then be from the future.
    const lifeMs = (LIMITS.executorTokenTtlS * 1000) / 2;
    if (this.#token === null || nowMs > this.#token.useUntilMs || nowMs < this.#token.useUntilMs - lifeMs) {
      const { executorId, issuer } = this.#enrolled;
      this.#token = { text: this.#identity.token(executorId, issuer, nowMs), useUntilMs: nowMs + lifeMs };
    }
    return this.#token.text;
  }

  #refusal(method: string, path: string, status: number, retryAfter: string | null, text: string): DsecError {
    let parsed: z.infer<typeof ErrorBodySchema> | undefined;
    try {
      parsed = ErrorBodySchema.parse(parseJson(text, "error answer"));
    } catch {
      return this.#unreachable(method, path, `status ${status} without an error of this protocol`);
    }
    const { code, message, details } = parsed.error;
    const retryAfterS = Number(retryAfter ?? Number.NaN);
    return new DsecError(code, message, {
      details: {
        ...details,
        ...(Number.isFinite(retryAfterS) ? { retry_after_ms: retryAfterS * 1000 } : {}),
      },
    });
  }

  #unreachable(method: string, path: string, why: string, cause?: unknown): DsecError {
    const message = `gateway ${this.url}: ${method} ${path}: ${why}`;
    return new DsecError("GATEWAY_UNREACHABLE", message.slice(0, LIMITS.errorTextChars), { cause });
  }
}

/** The whole of a body. @param max of a refusal: whatever answers with more is no gateway of ours */
async function bytesOf(body: AsyncIterable<Uint8Array>, max = Number.POSITIVE_INFINITY): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body) {
    size += part.length;
    if (size > max) throw new Error("it is too long");
    parts.push(part);
  }
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}
