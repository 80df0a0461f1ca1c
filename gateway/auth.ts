/** Who makes a request, and whether that is enough for the route. */
import { DsecError } from "#core/errors.ts";
import type { KeyId } from "#core/ids.ts";
import type { Scope } from "#core/wire/keys.ts";
import { type ExecutorCaller, ExecutorCheck } from "./auth-executors.ts";
import { type KeyCaller, KeyCheck } from "./auth-keys.ts";
import type { CryptoEngine, Store } from "./ports.ts";

export type { ExecutorCaller } from "./auth-executors.ts";
export { type KeyCaller, mintKey } from "./auth-keys.ts";

/** One of these is enough for a route; a route without any is public. */
export type Access = Scope | "executor";
export type Anonymous = { kind: "anonymous" };
export type Caller = KeyCaller | ExecutorCaller | Anonymous;

/** What a handler gets, by what its route asks for. */
export type CallerOf<A extends readonly Access[]> = A extends readonly []
  ? Anonymous
  :
      | ("executor" extends A[number] ? ExecutorCaller : never)
      | (Exclude<A[number], "executor"> extends never ? never : KeyCaller);

export class Auth {
  readonly #keys: KeyCheck;
  readonly #executors: ExecutorCheck;

  constructor(options: {
    store: Pick<Store, "findKey" | "findExecutor">;
    issuer: string;
    now: () => number;
    sha256: CryptoEngine["sha256"];
  }) {
    this.#keys = new KeyCheck(options);
    this.#executors = new ExecutorCheck(options);
  }

  /** UNAUTHENTICATED (or KEY_REVOKED) without a good credential, FORBIDDEN with one that is not enough. */
  async authenticate(authorization: string | undefined, access: readonly Access[]): Promise<Caller> {
    if (access.length === 0) return { kind: "anonymous" };
    const token = bearerToken(authorization, access);
    const caller = token.startsWith("dsk_")
      ? await this.#keys.check(token)
      : await this.#executors.check(token);
    if (caller.kind === "executor") {
      if (access.includes("executor")) return caller;
      throw new DsecError(
        "FORBIDDEN",
        `${caller.executorId} is an executor; this needs an API key with ${scopeText(access)}`,
      );
    }
    const { id, scopes } = caller.key;
    if (scopes.some((scope) => access.includes(scope))) return caller;
    throw new DsecError(
      "FORBIDDEN",
      access.every((one) => one === "executor")
        ? `${id} is an API key; this is for executors, which sign a token of their own after enrolling`
        : `${id} has ${scopeText(scopes)}; this needs ${scopeText(access)}`,
    );
  }

  forgetKey(id: KeyId): void {
    this.#keys.forget(id);
  }
}

/** The owner that reads are confined to, or null for an administrator, who sees every key's. */
export function ownerOf({ key }: KeyCaller): KeyId | null {
  return key.scopes.includes("admin") ? null : (key.id as KeyId);
}

function bearerToken(authorization: string | undefined, access: readonly Access[]): string {
  const match = /^Bearer +([^\s]+)$/i.exec(authorization ?? "");
  if (match !== null) return match[1]!;
  const what = access.every((one) => one === "executor")
    ? "Authorization: Bearer <a JWT signed with the executor's key>"
    : "Authorization: Bearer dsk_…";
  throw new DsecError("UNAUTHENTICATED", `send ${what}`);
}

function scopeText(scopes: readonly Access[]): string {
  return `the scope ${scopes.filter((scope) => scope !== "executor").join(" or ")}`;
}
