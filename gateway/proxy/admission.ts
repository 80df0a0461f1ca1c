/** Who calls, under which policy, and whether one hop of a call may be made. */
import { DsecError } from "#core/errors.ts";
import type { Digest, ExecutorId, KeyId, TaskId } from "#core/ids.ts";
import { jsonDigest } from "#core/json.ts";
import { formatAddress } from "#core/policy/address.ts";
import { type CompiledPolicy, compilePolicy, refusePrivateBeyond } from "#core/policy/compile.ts";
import {
  type Allowed,
  auditFields,
  type Decision,
  decide,
  decideAddresses,
  decideUnpinned,
} from "#core/policy/decide.ts";
import type { Hold } from "#core/wire/leases.ts";
import type { GatewayPorts } from "../ports.ts";
import type { Upstream } from "../upstream-port.ts";
import { Recent } from "./recent.ts";
import { SecretSource } from "./secrets.ts";

/** A lease that may call, and the policy in force. */
export type Caller = {
  executorId: ExecutorId;
  hold: Hold;
  taskId: TaskId;
  keyId: KeyId;
  compiled: CompiledPolicy;
  policyDigest: Digest;
};

/** One request that may be made: to these addresses, with these secrets in its header. */
export type Hop = {
  decision: Allowed;
  addresses: readonly string[];
  injected: [header: string, value: string][];
};

/** How late a running task's calls may notice that its policy was replaced. */
const POLICY_KEPT_MS = 1_000;
const COMPILED_KEPT = 1_024;

export class Admission {
  readonly #ports: Pick<GatewayPorts, "store" | "config" | "log">;
  readonly #upstream: Upstream;
  readonly #secrets: SecretSource;
  readonly #callers = new Recent<Caller>(POLICY_KEPT_MS);
  readonly #compiled = new Map<Digest, CompiledPolicy>();

  constructor(ports: Pick<GatewayPorts, "store" | "config" | "log" | "secretCipher">, upstream: Upstream) {
    this.#ports = ports;
    this.#upstream = upstream;
    this.#secrets = new SecretSource(ports.store, ports.secretCipher);
  }

  /** LEASE_*, or POLICY_FORBIDDEN where the operator has closed a network that the policy still names. */
  caller(executorId: ExecutorId, hold: Hold): Promise<Caller> {
    return this.#callers.get(`${executorId} ${hold.lease_id} ${hold.fence}`, async () => {
      const { taskId, keyId, policy } = await this.#ports.store.findCallContext(executorId, hold);
      refusePrivateBeyond(policy, this.#ports.config.privateNetworks ?? []);
      const policyDigest = await jsonDigest(policy);
      let compiled = this.#compiled.get(policyDigest);
      if (compiled === undefined) {
        if (this.#compiled.size >= COMPILED_KEPT) this.#compiled.clear();
        compiled = compilePolicy(policy);
        this.#compiled.set(policyDigest, compiled);
      }
      return { executorId, hold, taskId, keyId, compiled, policyDigest };
    });
  }

  /** The policy's decision about the first hop. Throws its refusal, which is logged with the same fields for every form. */
  decide(caller: Caller, call: { method: string; url: string }): Allowed {
    const decision = decide(caller.compiled, call);
    if (decision.allowed) return decision;
    throw this.refusal(caller, decision);
  }

  /** Finds and judges the addresses behind a hop that the policy allows, and the secrets that it takes along. */
  async admit(caller: Caller, decision: Allowed, signal: AbortSignal): Promise<Hop> {
    const addresses = await this.#addresses(caller, decision, signal);
    return { decision, addresses, injected: await this.#secrets.fieldsFor(caller.keyId, decision) };
  }

  refusal(
    { hold, taskId }: Caller,
    denied: { code: DsecError["code"]; message: string } & Partial<Decision>,
  ): DsecError {
    this.#ports.log({
      level: "info",
      message: "call refused",
      task_id: taskId,
      lease_id: hold.lease_id,
      ...(denied.method === undefined ? {} : auditFields(denied as Decision)),
      code: denied.code,
    });
    return new DsecError(denied.code, denied.message);
  }

  async #addresses(caller: Caller, decision: Allowed, signal: AbortSignal): Promise<readonly string[]> {
    const { host } = decision.target;
    if (!this.#upstream.pinned) {
      const verdict = decideUnpinned(caller.compiled);
      if (verdict.allowed) return [];
      throw this.refusal(caller, { ...decision, ...verdict } as never);
    }
    const answers =
      host.kind === "address"
        ? [formatAddress(host.address)]
        : await this.#upstream.resolve(host.text, signal);
    const verdict = decideAddresses(decision, answers);
    if (verdict.allowed) return verdict.addresses;
    throw this.refusal(caller, { ...decision, ...verdict } as never);
  }
}
