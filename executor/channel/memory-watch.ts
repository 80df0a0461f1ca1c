import type { Digest } from "#core/ids.ts";
import type { MemoryEvent } from "#core/wire/memory.ts";
import type { Memory, MemoryAudit } from "../memory/memory.ts";
import { failureOf } from "./call-failures.ts";
import type { EventLog } from "./event-log.ts";

/** Namespaces up to this size are read anew where they may have changed; of larger ones only the version tells. */
const AUDIT_BYTES = 256 * 1024;

/**
 * Watches one namespace around tool calls: what its digest is, and whether the recorded writes explain it. A change that
 * they do not explain becomes an `error` event with the digest that was expected and the one that is there.
 */
export class MemoryWatch {
  readonly #memory: Pick<Memory, "state" | "audit" | "isSame">;
  readonly #namespace: string;
  readonly #log: EventLog;
  #recordedVersion = 0;
  #bytes = 0;
  #last: Digest | null = null;
  #audited: MemoryAudit | null = null;

  constructor(memory: Pick<Memory, "state" | "audit" | "isSame">, namespace: string, log: EventLog) {
    this.#memory = memory;
    this.#namespace = namespace;
    this.#log = log;
  }

  /** What an earlier attempt of the task left is where this one begins. True where there is anything. */
  async begin(): Promise<boolean> {
    const { digest, version, bytes } = await this.#memory.state(this.#namespace);
    this.#recordedVersion = version;
    this.#bytes = bytes;
    this.#last = digest;
    return version > 0;
  }

  /** A write as the memory service recorded it. */
  wrote({ op, version }: Pick<MemoryEvent, "op" | "version">): void {
    if (op === "put" || op === "delete" || op === "expire" || op === "clear") this.#recordedVersion = version;
  }

  /** The digest now. @param call the tool call before or after which this is */
  check(call: number): Digest | Promise<Digest> {
    if (this.#bytes > AUDIT_BYTES) return this.#compareVersions(call);
    const audited = this.#audited;
    if (audited === null || !this.#memory.isSame(this.#namespace, audited)) return this.#audit(call);
    return audited.actual;
  }

  /** The last look, for which nothing is taken for known. What the attempt did stands without it, and the record says so. */
  async end(): Promise<void> {
    try {
      await (this.#bytes > AUDIT_BYTES ? this.#compareVersions(null) : this.#audit(null));
    } catch (error) {
      const why = failureOf(error).message;
      this.#log.append("error", {
        code: "MEMORY_UNCHECKED",
        text: `memory ${this.#namespace} could not be read at the end, so nobody knows that nothing changed it unrecorded: ${why}`,
        namespace: this.#namespace,
        version: this.#recordedVersion,
      });
    }
  }

  /** Reads the whole namespace, however large. */
  async #audit(call: number | null): Promise<Digest> {
    const audit = await this.#memory.audit(this.#namespace);
    const { expected, actual, version, bytes } = audit;
    if (expected !== actual) this.#report(call, expected, actual, version);
    this.#audited = audit;
    this.#bytes = bytes;
    this.#last = actual;
    return actual;
  }

  async #compareVersions(call: number | null): Promise<Digest> {
    const expected = this.#last;
    const { digest, version, bytes } = await this.#memory.state(this.#namespace);
    this.#bytes = bytes;
    // Recorded writes are told before their answers come, so the recorded version is never behind but for a stranger's.
    if (version > this.#recordedVersion) this.#report(call, expected, digest, version);
    this.#last = digest;
    return digest;
  }

  #report(call: number | null, expected: Digest | null, actual: Digest, version: number): void {
    this.#recordedVersion = Math.max(this.#recordedVersion, version);
    this.#log.append("error", {
      code: "MEMORY_CHANGED_UNRECORDED",
      text: `memory ${this.#namespace} changed though no recorded write explains it`,
      namespace: this.#namespace,
      expected_digest: expected,
      actual_digest: actual,
      version,
      call,
    });
  }
}
