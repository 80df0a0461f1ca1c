import { closeSync } from "node:fs";
import type { LaunchPlan } from "#native/index.ts";
import type { Authority } from "./authority.ts";
import type { ChannelCalls } from "./channel-calls.ts";
import { EGRESS_ENVIRONMENT, PROXY_PORT } from "./environment.ts";
import { LoopbackProxy } from "./loopback-proxy.ts";

/** The way out of one sandbox, from before its launch to after its end. */
export class WayOut {
  readonly #authority: Authority;
  readonly #trust: LaunchPlan["mounts"][number];
  readonly #calls: ChannelCalls;
  #proxy: LoopbackProxy | null = null;

  /** @param trust the authority's certificate, where the sandbox finds it */
  constructor(authority: Authority, trust: LaunchPlan["mounts"][number], calls: ChannelCalls) {
    this.#authority = authority;
    this.#trust = trust;
    this.#calls = calls;
  }

  /** The plan with what the proxy needs of it. The sandbox's own variables go before ours. */
  plan(plan: LaunchPlan): LaunchPlan {
    return {
      ...plan,
      env: { ...EGRESS_ENVIRONMENT, ...plan.env },
      mounts: [...plan.mounts, this.#trust],
      loopbackPorts: [PROXY_PORT],
    };
  }

  /** @param listeners of the sandbox that was launched by the plan; they are closed with this */
  async serve(listeners: readonly number[]): Promise<void> {
    const fd = listeners[0]!;
    try {
      this.#proxy = await LoopbackProxy.start({ fd }, this.#authority, this.#calls);
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  /** Ends every connection and resolves once what was under way is recorded. Idempotent. */
  async close(): Promise<void> {
    const proxy = this.#proxy;
    this.#proxy = null;
    await proxy?.close();
    await this.#calls.close();
  }
}
