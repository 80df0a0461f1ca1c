import type { z } from "zod";
import { DsecError, type ErrorCode } from "#core/errors.ts";
import { canonicalJson } from "#core/json.ts";
import { faultText, readAs } from "#core/schema-faults.ts";
import { ErrorBodySchema } from "#core/wire/common.ts";

/** Anything that answers a request: the global fetch, or a gateway's app in the same process. */
export type Fetch = (request: Request) => Response | Promise<Response>;

export type TransportOptions = {
  /** Origin of the gateway, such as `http://127.0.0.1:7330`. */
  gateway: string;
  apiKey?: string | undefined;
  fetch?: Fetch | undefined;
  /** Further tries of a call that may be repeated, after no answer or one of `RETRIED_STATUS`. */
  retries?: number | undefined;
};

export type Call = {
  method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE";
  path: string;
  query?: Record<string, string | number | undefined>;
  headers?: Record<string, string>;
  json?: unknown;
  bytes?: Uint8Array | ReadableStream<Uint8Array>;
  /** Doing it twice is doing it once, so a lost answer may be asked for again. */
  idempotent: boolean;
  signal?: AbortSignal | undefined;
};

export type Transport = {
  readonly gateway: string;
  readonly retries: number;
  /** The answer, which is 2xx; every other one is thrown as the `DsecError` that its body names. Its body is not read yet. */
  send(call: Call): Promise<Response>;
  /** The answer's whole body. An idempotent call whose answer broke off is repeated like one that was not answered. */
  sendForBytes(call: Call): Promise<Uint8Array>;
  /** The answer's body as it comes; where it breaks off, that is GATEWAY_UNREACHABLE. */
  sendForStream(call: Call): Promise<ReadableStream<Uint8Array>>;
  /** The answer's JSON, read whole as by `sendForBytes`. */
  sendFor<T extends z.ZodType>(schema: T, call: Call): Promise<z.output<T>>;
};

/** Overload and the failures that a proxy or a starting gateway answers with. */
const RETRIED_STATUS = new Set([429, 502, 503, 504]);
const RETRIES = 5;
const BACKOFF_BASE_MS = 200;
const BACKOFF_MAX_MS = 5_000;

export function createTransport(options: TransportOptions): Transport {
  const origin = gatewayOrigin(options.gateway);
  const retries = options.retries ?? RETRIES;
  const fetch = async (request: Request) => (options.fetch ?? globalThis.fetch)(request);

  async function once(call: Call): Promise<Response> {
    const response = await fetch(requestFor(origin, options.apiKey, call)).catch((cause: unknown) => {
      if (call.signal?.aborted) throw cause;
      throw new DsecError(
        "GATEWAY_UNREACHABLE",
        `gateway ${origin} cannot be reached: ${rootMessage(cause)}; is it running, and is this its address?`,
        {
          cause,
        },
      );
    });
    if (response.ok) return response;
    if (isRedirect(response)) {
      await response.body?.cancel();
      throw redirected(response, call, origin);
    }
    throw await errorFrom(response, `${call.method} ${origin}${call.path}`);
  }

  /** `read` is within what is repeated: an answer that broke off is a lost one. */
  async function answered<T>(call: Call, read: (response: Response) => Promise<T>): Promise<T> {
    const repeatable = call.idempotent && !(call.bytes instanceof ReadableStream);
    for (let attempt = 0; ; attempt++) {
      try {
        return await read(await once(call));
      } catch (error) {
        if (!repeatable || attempt >= retries || !isTransient(error) || call.signal?.aborted) throw error;
        await pause(retryAfterMs(error) ?? backoffMs(attempt), call.signal);
      }
    }
  }

  function brokeOff(call: Call, cause: unknown): unknown {
    if (call.signal?.aborted) return cause;
    const why = `${call.path}: the answer of ${origin} broke off: ${rootMessage(cause)}`;
    return new DsecError("GATEWAY_UNREACHABLE", why, { cause });
  }

  async function send(call: Call): Promise<Response> {
    return answered(call, async (response) => response);
  }

  async function sendForBytes(call: Call): Promise<Uint8Array> {
    return answered(call, (response) =>
      response.bytes().catch((cause: unknown) => {
        throw brokeOff(call, cause);
      }),
    );
  }

  async function sendForStream(call: Call): Promise<ReadableStream<Uint8Array>> {
    const reader = (await send(call)).body?.getReader();
    return new ReadableStream({
      async pull(controller) {
        try {
          const part = await reader?.read();
          if (part?.value === undefined) controller.close();
          else controller.enqueue(part.value);
        } catch (cause) {
          controller.error(brokeOff(call, cause));
        }
      },
      cancel: (reason) => reader?.cancel(reason),
    });
  }

  async function sendFor<T extends z.ZodType>(schema: T, call: Call): Promise<z.output<T>> {
    const text = new TextDecoder().decode(await sendForBytes(call));
    const body = jsonOrNull(text);
    if (body === null)
      throw new DsecError("GATEWAY_UNREACHABLE", `${call.path}: the answer of ${origin} is not JSON`);
    const read = readAs(schema, body);
    if (read.ok) return read.value;
    throw new DsecError(
      "GATEWAY_UNREACHABLE",
      `${call.path}: ${origin} does not answer as this version expects (${faultText(read.faults[0])}); ` +
        "compare the versions of client and gateway",
    );
  }

  return { gateway: origin, retries, send, sendForBytes, sendForStream, sendFor };
}

/** The origin of a gateway address; refuses what is no http(s) URL and never repeats credentials in it. */
export function gatewayOrigin(address: string): string {
  let url: URL;
  try {
    url = new URL(address);
  } catch (cause) {
    throw new DsecError("CONFIG_INVALID", `gateway address ${JSON.stringify(address)} is no URL`, { cause });
  }
  if (!["http:", "https:"].includes(url.protocol)) {
    throw new DsecError(
      "CONFIG_INVALID",
      `gateway address ${JSON.stringify(address)} must be http: or https:`,
    );
  }
  return url.origin;
}

/** Exponential with full jitter, so that clients that failed together do not come back together. */
export function backoffMs(attempt: number): number {
  return Math.random() * Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** attempt);
}

/** Whether trying again may help: no answer at all, overload, or a failing proxy. */
export function isTransient(error: unknown): boolean {
  return (
    error instanceof DsecError && (error.code === "GATEWAY_UNREACHABLE" || RETRIED_STATUS.has(error.status))
  );
}

/** Waits, or rejects with the signal's reason when it aborts first. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

function requestFor(origin: string, apiKey: string | undefined, call: Call): Request {
  const url = new URL(call.path, origin);
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  const headers = new Headers(call.headers);
  if (apiKey !== undefined) headers.set("authorization", `Bearer ${apiKey}`);
  // Followed by itself, a redirect turns POST into GET and drops the key: what comes of that names the wrong fault.
  const init: RequestInit & { duplex?: "half" } = { method: call.method, headers, redirect: "manual" };
  if (call.signal) init.signal = call.signal;
  if (call.json !== undefined) {
    headers.set("content-type", "application/json");
    init.body = canonicalJson(call.json);
  } else if (call.bytes !== undefined) {
    headers.set("content-type", "application/octet-stream");
    init.body = call.bytes as Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
    // streams are sent while they are read (Fetch standard: required with a stream body)
    if (call.bytes instanceof ReadableStream) init.duplex = "half";
  }
  return new Request(url, init);
}

/** Browsers show no more of a redirect than that it is one. */
function isRedirect(response: Response): boolean {
  return response.type === "opaqueredirect" || [301, 302, 303, 307, 308].includes(response.status);
}

/** The key goes to no address but the one that was named: who named it is told where the gateway may be. */
function redirected(response: Response, call: Call, origin: string): DsecError {
  const what = `${call.method} ${origin}${call.path} is redirected`;
  const to = URL.parse(response.headers.get("location") ?? "", `${origin}${call.path}`);
  const way =
    to === null || to.origin === origin || !/^https?:$/.test(to.protocol)
      ? "no DSec gateway does that"
      : `if that is the gateway's own address, name it: ${to.origin}`;
  const where = to === null ? "" : ` to ${to.origin}${to.pathname}`;
  return new DsecError("CONFIG_INVALID", `${what}${where}; ${way}`);
}

/** The error that a refusal's body names; a body that is not ours (a proxy's page) is a gateway we did not reach. */
async function errorFrom(response: Response, what: string): Promise<DsecError> {
  const text = await response.text().catch(() => "");
  const retryAfter = response.headers.get("retry-after");
  const body = ErrorBodySchema.safeParse(jsonOrNull(text));
  if (body.success) {
    const { code, message, details, request_id } = body.data.error;
    return new DsecError(code, message, {
      details: { ...details, request_id, retry_after: retryAfter ?? undefined },
    });
  }
  const code: ErrorCode = response.status === 404 ? "NOT_FOUND" : "GATEWAY_UNREACHABLE";
  const kind = response.headers.get("content-type") ?? "no content type";
  return new DsecError(code, `${what} was answered ${response.status} (${kind}), not by a DSec gateway`, {
    details: { retry_after: retryAfter ?? undefined },
  });
}

function jsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** `Retry-After` in seconds (RFC 9110 section 10.2.3), bounded: a client must not be put to sleep for a day. */
function retryAfterMs(error: unknown): number | undefined {
  if (!(error instanceof DsecError)) return undefined;
  const seconds = Number(error.details?.retry_after ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds * 1000, 30_000) : undefined;
}

/** fetch says only "fetch failed"; what happened is at the end of the causes. */
function rootMessage(error: unknown): string {
  let current = error;
  while (current instanceof Error && current.cause instanceof Error) current = current.cause;
  if (!(current instanceof Error)) return String(current);
  return current.message || ("code" in current ? String(current.code) : current.name);
}
