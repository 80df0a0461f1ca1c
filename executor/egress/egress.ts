import { join } from "node:path";
import type { Lease } from "#core/wire/leases.ts";
import type { LaunchPlan } from "#native/index.ts";
import type { Channel } from "../channel/channel.ts";
import type { GatewayClient } from "../gateway-client.ts";
import type { Authority } from "./authority.ts";
import { ChannelCalls } from "./channel-calls.ts";
import { CurrentPolicy } from "./current-policy.ts";
import { TRUST_FOLDER, TRUST_NAME, TRUST_PATH } from "./environment.ts";
import { extendTrust, trustFolderIn } from "./trust.ts";
import { WayOut } from "./way-out.ts";

/** A tool that runs in a sandbox of its own, and its call in the event log. */
export type ToolRun = { call: number; tool: string };

/**
 * How programs that know nothing of DSec leave the sandboxes of one attempt: the agent's own, and those of its tools. All go
 * by one policy and trust one authority; what a tool's programs ask for is told as asked for in the course of its call.
 */
export class Egress {
  readonly agent: WayOut;
  readonly #authority: Authority;
  readonly #trustFolder: string;
  readonly #parts: Omit<ConstructorParameters<typeof ChannelCalls>[0], "within">;

  /**
   * @param directory the attempt's private folder, which goes with the attempt
   * @param authority that the folder was made for
   */
  constructor(
    lease: Lease,
    directory: string,
    authority: Authority,
    channel: Pick<Channel, "calls" | "recorded" | "log">,
    client: Pick<GatewayClient, "policy">,
    signal: AbortSignal,
  ) {
    const { policy } = lease.spec;
    this.#authority = authority;
    this.#trustFolder = trustFolderIn(directory);
    extendTrust(directory, authority, policy);
    const { calls, recorded, log } = channel;
    const hold = { lease_id: lease.lease_id, fence: lease.fence };
    const current = new CurrentPolicy(policy, () => client.policy(hold, signal));
    this.#parts = { calls, recorded, log, policy: current, directory };
    this.agent = this.#wayOut({ source: join(this.#trustFolder, TRUST_NAME), target: TRUST_PATH }, null);
  }

  /** For the tool's sandbox, which has no socket: the folder in which the agent's has one holds the certificate alone. */
  ofTool(run: ToolRun): WayOut {
    return this.#wayOut({ source: this.#trustFolder, target: TRUST_FOLDER }, run);
  }

  #wayOut(trust: LaunchPlan["mounts"][number], within: ToolRun | null): WayOut {
    return new WayOut(this.#authority, trust, new ChannelCalls({ ...this.#parts, within }));
  }
}
