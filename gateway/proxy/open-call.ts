import { DsecError, type ErrorCode } from "#core/errors.ts";
import { sha256 } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import {
  type AnswerEnd,
  type CallHead,
  type Fingerprint,
  type ReceiptClaims,
  UpstreamStatusSchema,
} from "#core/wire/calls.ts";
import type { GatewayPorts } from "../ports.ts";
import type { CallSignature } from "../signing/call-signature.ts";
import { signReceipt } from "../signing/receipt.ts";
import type { Caller, Hop } from "./admission.ts";
import { SentSecrets } from "./secrets.ts";
import type { CallSpending } from "./spending.ts";

export type Failure = { code: ErrorCode; message: string };

/** A call that is recorded and under way, until it has its receipt. */
export class OpenCall {
  readonly caller: Caller;
  readonly head: CallHead;
  readonly signature: CallSignature;
  /** The fields that say so to the upstream that is asked first. */
  readonly signed: [name: string, value: string][];
  readonly spending: CallSpending;
  readonly sentSecrets = new SentSecrets();
  readonly redirects: string[] = [];
  /** The last URL that was asked. */
  url: string;
  #status: number | null = null;
  /** Whether the answer came to its end. */
  complete = false;
  fingerprint: (() => Promise<Fingerprint>) | null = null;
  readonly #opaque: boolean;
  readonly #pinned: boolean;
  readonly #ports: Pick<GatewayPorts, "store" | "keys" | "crypto" | "config" | "now">;
  readonly #startedAtMs: number;
  readonly #startMs = performance.now();
  #durationUs: number | null = null;

  constructor(
    facts: {
      caller: Caller;
      head: CallHead;
      hop: Hop;
      signature: CallSignature;
      signed: [name: string, value: string][];
      spending: CallSpending;
      pinned: boolean;
    },
    ports: Pick<GatewayPorts, "store" | "keys" | "crypto" | "config" | "now">,
  ) {
    this.caller = facts.caller;
    this.head = facts.head;
    this.signature = facts.signature;
    this.signed = facts.signed;
    this.spending = facts.spending;
    this.url = facts.hop.decision.target.url;
    this.#opaque = facts.hop.decision.passage === "opaque";
    this.#pinned = facts.pinned;
    this.#ports = ports;
    this.#startedAtMs = Math.floor(ports.now());
  }

  /** HTTP status of the answer, once its head is there. */
  get status(): number | null {
    return this.#status;
  }

  /** The head of its answer is there. @throws UPSTREAM_FAILED where the status has not three digits: that is no answer */
  answered(status: number): void {
    if (!UpstreamStatusSchema.safeParse(status).success) {
      const { host } = new URL(this.url);
      throw new DsecError(
        "UPSTREAM_FAILED",
        `${host}: the answer has status ${status}, which is none of HTTP`,
      );
    }
    this.#status = status;
  }

  /** Once its answer is whole: what its receipt will say of that. */
  async end(): Promise<AnswerEnd> {
    const { bytes_up, bytes_down } = this.spending.spent;
    const fingerprint = (await this.fingerprint?.()) ?? null;
    return { fingerprint, bytes_up, bytes_down, duration_us: this.#duration() };
  }

  /** Signs and keeps the receipt. @returns its compact form */
  async finish(failure: Failure | null): Promise<string> {
    const { hold, taskId } = this.caller;
    const { spent } = this.spending;
    const hash = this.#ports.crypto?.sha256 ?? sha256;
    const claims: ReceiptClaims = {
      iss: this.#ports.config.issuer,
      sub: hold.lease_id,
      fence: hold.fence,
      seq: this.head.seq,
      iat: Math.floor(this.#ports.now() / 1000),
      call: await hash(this.signature.jws),
      status: this.status,
      error: failure?.code ?? null,
      url: this.url,
      redirects: this.redirects,
      fingerprint: this.fingerprint === null ? null : await this.fingerprint(),
      bytes_up: spent.bytes_up,
      bytes_down: spent.bytes_down,
      started_at_ms: this.#startedAtMs,
      duration_us: this.#duration(),
      partial: this.status !== null && !this.complete,
      opaque: this.#opaque,
      pinned_dns: this.#pinned,
    };
    const { jwt, leaf } = await signReceipt(claims, this.#ports.keys, hash);
    await this.#ports.store.recordReceipt({
      taskId,
      leaseId: hold.lease_id as never,
      fence: hold.fence,
      seq: this.head.seq,
      jwt,
      leaf,
      spent,
    });
    return jwt;
  }

  /** Until it was first asked for. */
  #duration(): number {
    this.#durationUs ??= Math.round((performance.now() - this.#startMs) * 1000);
    return this.#durationUs;
  }

  /** Any thrown value as what the sandbox may be told: without secrets, and without what we did not foresee. */
  failureOf(error: unknown): Failure {
    if (error instanceof DsecError) {
      const message = this.sentSecrets.scrub(error.message).slice(0, LIMITS.errorTextChars);
      return { code: error.code, message };
    }
    return {
      code: "INTERNAL",
      message: `call ${this.head.seq} of ${this.caller.hold.lease_id} failed unexpectedly`,
    };
  }
}
