/** What every route of one gateway shares: the ports, and the little state that a process keeps beside them. */
import type { Auth } from "./auth.ts";
import type { Metrics } from "./metrics.ts";
import type { CryptoEngine, GatewayPorts } from "./ports.ts";
import type { CallProxy } from "./proxy/proxy.ts";
import type { RateLimiter } from "./rate-limit.ts";
import type { FreshFeeds } from "./routes/event-feed.ts";

export type Gateway = GatewayPorts & {
  crypto: CryptoEngine;
  auth: Auth;
  limiter: RateLimiter;
  metrics: Metrics;
  proxy: CallProxy;
  freshFeeds: FreshFeeds;
  /** Aborts when the process is about to stop: long polls answer and streams end. Absent where nothing stops (edge). */
  closing: AbortSignal | undefined;
};

/** Hono's types for what the first middleware sets on every request. */
export type Env = { Variables: { requestId: string; route: string } };
