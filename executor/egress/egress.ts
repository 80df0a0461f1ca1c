import { closeSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Lease } from "#core/wire/leases.ts";
import type { LaunchPlan } from "#native/index.ts";
import type { Channel } from "../channel/channel.ts";
import type { GatewayClient } from "../gateway-client.ts";
import { Authority } from "./authority.ts";
import { ChannelCalls } from "./channel-calls.ts";
import { CurrentPolicy } from "./current-policy.ts";
import { EGRESS_ENVIRONMENT, PROXY_PORT, TRUST_PATH, trustedCertificates } from "./environment.ts";
import { LoopbackProxy } from "./loopback-proxy.ts";

/** The way out of one sandbox for programs that know nothing of DSec, from before its launch to after its end. */
export class Egress {
  readonly #authority = new Authority();
  readonly #calls: ChannelCalls;
  readonly #trustPath: string;
  #proxy: LoopbackProxy | null = null;

  /** @param directory the attempt's private folder, which goes with the attempt */
  constructor(
    lease: Lease,
    directory: string,
    channel: Pick<Channel, "calls" | "recorded" | "log">,
    client: Pick<GatewayClient, "policy">,
    signal: AbortSignal,
  ) {
    const { policy } = lease.spec;
    this.#trustPath = join(directory, "ca.pem");
    writeFileSync(this.#trustPath, trustedCertificates(this.#authority, policy), { mode: 0o444 });
    const { calls, recorded, log } = channel;
    const hold = { lease_id: lease.lease_id, fence: lease.fence };
    const current = new CurrentPolicy(policy, () => client.policy(hold, signal));
    this.#calls = new ChannelCalls({ calls, recorded, log, policy: current, directory });
  }

  /** The plan with what the proxy needs of it. The task's own variables go before ours. */
  plan(plan: LaunchPlan): LaunchPlan {
    return {
      ...plan,
      env: { ...EGRESS_ENVIRONMENT, ...plan.env },
      mounts: [...plan.mounts, { source: this.#trustPath, target: TRUST_PATH }],
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
