import { type CompiledPolicy, compilePolicy } from "#core/policy/compile.ts";
import type { Policy } from "#core/wire/policy.ts";

/** How long an answer of the gateway counts as the policy of now. */
const FRESH_MS = 1_000;

/**
 * The task's policy as far as this executor knows it. It can change while the task runs; the gateway, which judges every
 * call again, always has the current one. So the known one serves until it refuses something, and is asked for anew then.
 */
export class CurrentPolicy {
  readonly #fetch: () => Promise<Policy>;
  #known: CompiledPolicy;
  #renewal: { atMs: number; policy: Promise<CompiledPolicy> } | null = null;

  /** @param first as the lease was granted with it */
  constructor(first: Policy, fetch: () => Promise<Policy>) {
    this.#known = compilePolicy(first);
    this.#fetch = fetch;
  }

  get known(): CompiledPolicy {
    return this.#known;
  }

  /** Rejects where the gateway cannot be asked: what it would say is not for us to guess. */
  renewed(): Promise<CompiledPolicy> {
    const nowMs = performance.now();
    if (this.#renewal === null || nowMs - this.#renewal.atMs > FRESH_MS) {
      this.#renewal = { atMs: nowMs, policy: this.#renew() };
      this.#renewal.policy.catch(() => (this.#renewal = null));
    }
    return this.#renewal.policy;
  }

  async #renew(): Promise<CompiledPolicy> {
    this.#known = compilePolicy(await this.#fetch());
    return this.#known;
  }
}
