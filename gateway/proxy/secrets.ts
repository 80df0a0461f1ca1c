/** Secrets on their way out: found, judged by where they may go, and kept from coming back. */
import { DsecError } from "#core/errors.ts";
import type { KeyId } from "#core/ids.ts";
import type { Allowed } from "#core/policy/decide.ts";
import type { Host } from "#core/policy/host.ts";
import { parseRuleHost } from "#core/policy/rule-host.ts";
import type { SealedSecret, SecretCipher, Store } from "../ports.ts";
import { Recent } from "./recent.ts";

/** What a sealed secret belongs to: in another key's name, or with other hosts, it does not open. */
export function sealContext(keyId: KeyId, { name, hosts }: Omit<SealedSecret, "sealed">): string {
  return JSON.stringify(["dsec-secret", keyId, name, hosts]);
}

export class SecretSource {
  readonly #store: Pick<Store, "findSecrets">;
  readonly #cipher: SecretCipher | undefined;
  /** As long as policies, so that what is revoked is gone as soon. */
  readonly #recent = new Recent<SealedSecret | null>(1_000);

  constructor(store: Pick<Store, "findSecrets">, cipher: SecretCipher | undefined) {
    this.#store = store;
    this.#cipher = cipher;
  }

  /** The header fields that the policy injects into this hop. SECRET_NOT_FOUND, SECRET_FORBIDDEN. */
  async fieldsFor(keyId: KeyId, decision: Allowed): Promise<[header: string, value: string][]> {
    if (decision.secrets.length === 0) return [];
    return Promise.all(
      decision.secrets.map(async ({ header, secret }): Promise<[string, string]> => {
        return [header, await this.#valueOf(keyId, secret, decision.target.host)];
      }),
    );
  }

  async #valueOf(keyId: KeyId, name: string, host: Host): Promise<string> {
    if (this.#cipher === undefined) {
      throw new DsecError("PROXY_UNAVAILABLE", `secret ${name}: this gateway has no key for secrets`);
    }
    const found = await this.#recent.get(`${keyId} ${name}`, async () => {
      const [secret] = await this.#store.findSecrets(keyId, [name]);
      return secret ?? null;
    });
    if (found === null) {
      throw new DsecError(
        "SECRET_NOT_FOUND",
        `secret ${name}, which the policy names, is not there; make it with POST /v1/secrets`,
      );
    }
    if (!found.hosts.some((rule) => holds(rule, host))) {
      throw new DsecError(
        "SECRET_FORBIDDEN",
        `secret ${name} may go to ${found.hosts.join(", ")} and not to ${host.text}, whatever the policy says`,
      );
    }
    return this.#cipher.open(found.sealed, sealContext(keyId, found));
  }
}

function holds(rule: string, host: Host): boolean {
  const named = parseRuleHost(rule);
  if (named.kind === "exact") return named.host.text === host.text;
  return host.kind === "name" && host.text.endsWith(`.${named.suffix}`);
}

/**
 * Secrets that a call has sent. An upstream that answers with its request's own headers would hand them to the
 * sandbox: such an answer is cut before the first of their bytes. A secret in another coding is not recognised.
 */
export class SentSecrets {
  readonly #parts = new Set<string>();
  #needles: Uint8Array[] = [];
  #held: Uint8Array = new Uint8Array(0);

  add(value: string): void {
    // `Bearer token`: the token is the secret, and may come back alone.
    const parts = value.split(" ").filter((part) => part.length >= 8);
    for (const part of parts.length > 0 ? parts : [value]) this.#parts.add(part);
    this.#needles = [...this.#parts].map((part) => new TextEncoder().encode(part));
  }

  /** The text with every secret replaced, for messages. */
  scrub(text: string): string {
    let clean = text;
    for (const part of this.#parts) clean = clean.replaceAll(part, "[secret]");
    return clean;
  }

  refuseIn(headers: readonly (readonly [string, string])[]): void {
    for (const part of this.#parts) {
      if (headers.some(([, value]) => value.includes(part))) throw reflected();
    }
  }

  /** What may be handed on of the bytes so far; at the end of the body, pass null. SECRET_REFLECTED. */
  pass(chunk: Uint8Array | null): Uint8Array {
    if (this.#needles.length === 0) return chunk ?? new Uint8Array(0);
    const bytes = chunk === null ? this.#held : joined(this.#held, chunk);
    this.#held = new Uint8Array(0);
    if (chunk === null) return bytes;
    let keep = bytes.length;
    for (const needle of this.#needles) {
      for (let at = bytes.indexOf(needle[0]!); at >= 0; at = bytes.indexOf(needle[0]!, at + 1)) {
        const matched = matchLength(bytes, at, needle);
        if (matched === needle.length) throw reflected();
        // What may become a secret with the next bytes waits for them.
        if (at + matched === bytes.length) keep = Math.min(keep, at);
      }
    }
    this.#held = bytes.slice(keep);
    return bytes.subarray(0, keep);
  }
}

function matchLength(bytes: Uint8Array, at: number, needle: Uint8Array): number {
  let length = 0;
  while (length < needle.length && bytes[at + length] === needle[length]) length++;
  return length;
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  if (a.length === 0) return b;
  const whole = new Uint8Array(a.length + b.length);
  whole.set(a);
  whole.set(b, a.length);
  return whole;
}

function reflected(): DsecError {
  return new DsecError(
    "SECRET_REFLECTED",
    "the answer holds a secret that the gateway put into the request; nothing of it is handed on",
  );
}
