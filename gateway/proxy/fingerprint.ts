import { joined } from "#core/bytes.ts";
import type { Digest } from "#core/ids.ts";
import { canonicalJson, type Json, parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Fingerprint } from "#core/wire/calls.ts";
import type { Upstream } from "../upstream-port.ts";

/** Takes the fingerprint of a body while it streams past. */
export class Fingerprinting {
  readonly #newHash: Upstream["hash"];
  readonly #hash: ReturnType<Upstream["hash"]>;
  readonly #ignore: readonly string[];
  /** Null where the body is not JSON, or too large for a canonical form. */
  #text: Uint8Array[] | null;
  #textBytes = 0;

  /** @param ignore JSON Pointers (RFC 6901) of members that the canonical form leaves out */
  constructor(newHash: Upstream["hash"], contentType: string | undefined, ignore: readonly string[]) {
    this.#newHash = newHash;
    this.#hash = newHash();
    this.#ignore = ignore;
    this.#text = isJson(contentType) ? [] : null;
  }

  update(bytes: Uint8Array): void | Promise<void> {
    if (this.#text !== null) {
      this.#textBytes += bytes.length;
      if (this.#textBytes > LIMITS.jsonFingerprintBytes) this.#text = null;
      else this.#text.push(bytes);
    }
    return this.#hash.update(bytes);
  }

  async finish(): Promise<Fingerprint> {
    return { body: await this.#hash.digest(), json: await this.#json() };
  }

  async #json(): Promise<Digest | null> {
    if (this.#text === null) return null;
    try {
      const value = parseJson(joined(this.#text), "the answer");
      const hash = this.#newHash();
      await hash.update(new TextEncoder().encode(canonicalJson(this.#ignore.reduce(withoutMember, value))));
      return await hash.digest();
    } catch {
      return null; // says that it is JSON and is not, or not unambiguously
    }
  }
}

/** The value without the member that an RFC 6901 pointer names; an array keeps its length, with null in its place. */
export function withoutMember(value: Json, pointer: string): Json {
  const [first, ...rest] = pointer
    .slice(1)
    .split("/")
    .map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"));
  return without(value, first!, rest);
}

function without(value: Json, name: string, rest: string[]): Json {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) {
    const index = /^(0|[1-9]\d*)$/.test(name) ? Number(name) : -1;
    return value.map((item, i) => {
      if (i !== index) return item;
      return rest.length === 0 ? null : without(item, rest[0]!, rest.slice(1));
    });
  }
  return Object.fromEntries(
    Object.entries(value).flatMap(([member, item]): [string, Json][] => {
      if (member !== name) return [[member, item]];
      return rest.length === 0 ? [] : [[member, without(item, rest[0]!, rest.slice(1))]];
    }),
  );
}

/** RFC 8259 and RFC 6839 section 3.1: application/json, and what ends in +json. */
function isJson(contentType: string | undefined): boolean {
  return /^\s*(application\/json|[\w.+-]+\/[\w.+-]+\+json)\s*(;|$)/i.test(contentType ?? "");
}
