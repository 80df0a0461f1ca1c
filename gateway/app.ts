/** The gateway as one pure fetch function over its ports: Node, Cloudflare and the tests call the same app. */
import { OpenAPIHono } from "@hono/zod-openapi";
import { DsecError } from "#core/errors.ts";
import { httpDate } from "#core/http-date.ts";
import { Auth } from "./auth.ts";
import type { Env, Gateway } from "./environment.ts";
import { Metrics } from "./metrics.ts";
import type { GatewayPorts } from "./ports.ts";
import { CallProxy } from "./proxy/proxy.ts";
import { RateLimiter } from "./rate-limit.ts";
import { failure } from "./reply.ts";
import { artifactRoutes } from "./routes/artifacts.ts";
import { attestationRoutes } from "./routes/attestations.ts";
import { callRoutes } from "./routes/calls.ts";
import { FreshFeeds } from "./routes/event-feed.ts";
import { eventRoutes } from "./routes/events.ts";
import { executorRoutes } from "./routes/executors.ts";
import { keyRoutes } from "./routes/keys.ts";
import { leaseEndRoutes } from "./routes/lease-ends.ts";
import { leaseRoutes } from "./routes/leases.ts";
import { messageRoutes } from "./routes/messages.ts";
import { observationRoutes } from "./routes/observations.ts";
import { outputRoutes } from "./routes/outputs.ts";
import { receiptRoutes } from "./routes/receipts.ts";
import { secretRoutes } from "./routes/secrets.ts";
import { systemRoutes } from "./routes/system.ts";
import { taskRoutes } from "./routes/tasks.ts";
import { traceRoutes } from "./routes/traces.ts";
import { webCrypto } from "./signing/web-crypto.ts";

/** @param closing aborts when the process is about to stop, so that long polls answer and event streams end */
export function createApp(ports: GatewayPorts, options: { closing?: AbortSignal } = {}): OpenAPIHono<Env> {
  return createGateway(ports, options).app;
}

/** The app, and what its routes share, for servers that take in more than requests. */
export function createGateway(
  ports: GatewayPorts,
  { closing }: { closing?: AbortSignal } = {},
): { app: OpenAPIHono<Env>; gateway: Gateway } {
  const metrics = new Metrics();
  const engine = ports.crypto ?? webCrypto;
  const gateway: Gateway = {
    ...ports,
    crypto: engine,
    auth: new Auth({
      store: ports.store,
      issuer: ports.config.issuer,
      now: () => ports.now(),
      sha256: engine.sha256,
    }),
    limiter: new RateLimiter({
      ratePerS: ports.config.rateRequestsPerS,
      burst: ports.config.rateBurst,
      now: () => ports.now(),
    }),
    metrics,
    proxy: new CallProxy({ ...ports, metrics }),
    freshFeeds: new FreshFeeds(ports.wake, closing),
    closing,
  };
  const app = new OpenAPIHono<Env>();

  app.use(async (c, next) => {
    const startMs = performance.now();
    const requestId = requestIdOf(c.req.header("x-request-id"));
    c.set("requestId", requestId);
    // Before next(): a header that is set afterwards makes Hono copy the whole response.
    for (const [name, value] of Object.entries(answerHeaders(requestId, gateway.now())))
      c.header(name, value);
    await next();
    const labels = { method: c.req.method, route: c.get("route") ?? "(none)", status: String(c.res.status) };
    gateway.metrics.count("dsec_http_requests_total", "Requests answered.", labels);
    if (labels.route.endsWith("(waits)")) return;
    const seconds = (performance.now() - startMs) / 1000;
    gateway.metrics.observe(
      "dsec_http_request_seconds",
      "Time to the answer's head.",
      { route: labels.route },
      seconds,
    );
  });

  for (const routes of [
    taskRoutes,
    eventRoutes,
    outputRoutes,
    artifactRoutes,
    leaseRoutes,
    leaseEndRoutes,
    callRoutes,
    receiptRoutes,
    observationRoutes,
    messageRoutes,
    traceRoutes,
    secretRoutes,
    executorRoutes,
    keyRoutes,
    attestationRoutes,
  ]) {
    app.route("/", routes(gateway));
  }
  app.route("/", systemRoutes(gateway, app));

  app.notFound((c) => {
    const allowed = methodsAt(app, c.req.path);
    const { method, path } = c.req;
    // A handler may say so too, of a name that its pattern takes.
    if (allowed.length === 0 || allowed.includes(method)) {
      const message = `nothing is served at ${path.slice(0, 200)}; see /openapi.json or /docs`;
      return failure(c, new DsecError("NOT_FOUND", message));
    }
    // RFC 9110 section 15.5.6: a 405 names what is allowed.
    c.header("Allow", allowed.join(", "));
    return failure(
      c,
      new DsecError("METHOD_NOT_ALLOWED", `${path.slice(0, 200)} takes ${allowed.join(", ")}, not ${method}`),
    );
  });

  app.onError((error, c) => {
    logFailure(
      gateway,
      { requestId: c.get("requestId"), method: c.req.method, route: c.get("route") },
      error,
    );
    return failure(c, error);
  });
  return { app, gateway };
}

/** What every answer carries. */
export function answerHeaders(requestId: string, nowMs: number): Record<string, string> {
  return {
    "X-Request-Id": requestId,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    // Executors set their clocks by it (B60), so it is the clock that judges their tokens.
    Date: httpDate(nowMs),
  };
}

/** Logs what is our fault; a refusal is the client's. */
export function logFailure(
  { log }: Pick<GatewayPorts, "log">,
  { requestId, method, route }: { requestId: string; method: string; route: string },
  error: unknown,
): void {
  if (error instanceof DsecError && error.status < 500) return;
  const { stack, cause } = error instanceof Error ? error : {};
  log({
    level: "error",
    message: "request failed",
    request_id: requestId,
    method,
    route,
    error: stack ?? String(error),
    ...(cause === undefined ? {} : { cause: String(cause) }),
  });
}

/** A client's own request id is kept where it is a plain word: it goes into logs and headers. */
export function requestIdOf(given: string | undefined): string {
  if (given !== undefined && /^[A-Za-z0-9._-]{1,64}$/.test(given)) return given;
  return crypto.randomUUID();
}

function methodsAt(app: OpenAPIHono<Env>, path: string): string[] {
  const methods = new Set<string>();
  for (const route of app.routes) {
    if (route.method === "ALL" || route.path.includes("*")) continue;
    const pattern = new RegExp(`^${route.path.replaceAll(/[.]/g, "\\.").replaceAll(/:\w+/g, "[^/]+")}$`);
    if (pattern.test(path)) methods.add(route.method);
  }
  if (methods.has("GET")) methods.add("HEAD");
  return [...methods].sort();
}
