/**
 * Executor tokens: a JWT (RFC 7519) of at most a minute that the executor signs with the Ed25519 key it enrolled
 * with. `iss` is the executor id, `aud` this gateway's issuer, `typ` dsec-executor+jwt (RFC 8725 section 3.11).
 */
import { decodeJwt, errors, importJWK, jwtVerify } from "jose";
import { DsecError } from "#core/errors.ts";
import type { ExecutorId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { TYP } from "#core/wire/attestations.ts";
import { ExecutorIdSchema } from "#core/wire/common.ts";
import type { Store } from "./ports.ts";

export type ExecutorCaller = { kind: "executor"; executorId: ExecutorId };

const CACHE_MAX = 10_000;
/** An executor's key never changes (another key is another executor), so only memory bounds this cache. */
const KEY_CACHE_MAX = 10_000;

export class ExecutorCheck {
  readonly #store: Pick<Store, "findExecutor">;
  readonly #issuer: string;
  readonly #now: () => number;
  readonly #keys = new Map<ExecutorId, CryptoKey>();
  /** Tokens that verified, until they expire: an executor uses one for many requests. */
  readonly #verified = new Map<string, { executorId: ExecutorId; untilMs: number }>();

  constructor(options: { store: Pick<Store, "findExecutor">; issuer: string; now: () => number }) {
    this.#store = options.store;
    this.#issuer = options.issuer;
    this.#now = options.now;
  }

  /** UNAUTHENTICATED with what is wrong about the token, which is never repeated. */
  async check(token: string): Promise<ExecutorCaller> {
    const nowMs = this.#now();
    const known = this.#verified.get(token);
    if (known !== undefined && nowMs < known.untilMs)
      return { kind: "executor", executorId: known.executorId };
    this.#verified.delete(token);

    const executorId = claimedIssuer(token);
    const key = await this.#keyOf(executorId);
    const expiresAtS = await this.#verify(token, key, executorId, nowMs);
    if (this.#verified.size >= CACHE_MAX) this.#verified.delete(this.#verified.keys().next().value!);
    this.#verified.set(token, { executorId, untilMs: expiresAtS * 1000 });
    return { kind: "executor", executorId };
  }

  async #verify(token: string, key: CryptoKey, executorId: ExecutorId, nowMs: number): Promise<number> {
    try {
      const { payload } = await jwtVerify(token, key, {
        algorithms: ["EdDSA"],
        typ: TYP.executor,
        issuer: executorId,
        audience: this.#issuer,
        currentDate: new Date(nowMs),
        clockTolerance: LIMITS.clockLeewayS,
        maxTokenAge: LIMITS.executorTokenTtlS,
        requiredClaims: ["iss", "aud", "iat", "exp"],
      });
      const { iat, exp } = payload as { iat: number; exp: number };
      if (exp - iat > LIMITS.executorTokenTtlS) {
        throw unauthenticated(`${executorId}: the token lives longer than ${LIMITS.executorTokenTtlS} s`);
      }
      return exp;
    } catch (cause) {
      if (cause instanceof DsecError) throw cause;
      throw unauthenticated(`${executorId}: ${reason(cause, nowMs)}`, cause);
    }
  }

  async #keyOf(id: ExecutorId): Promise<CryptoKey> {
    const cached = this.#keys.get(id);
    if (cached !== undefined) return cached;
    const { public_key } = await this.#store.findExecutor(id).catch((cause: unknown) => {
      if (cause instanceof DsecError && cause.code === "EXECUTOR_NOT_FOUND") {
        throw unauthenticated(`${id} is not enrolled here; enrol it first (POST /v1/executors/enrol)`, cause);
      }
      throw cause;
    });
    const key = (await importJWK({ ...public_key }, "EdDSA")) as CryptoKey;
    if (this.#keys.size >= KEY_CACHE_MAX) this.#keys.delete(this.#keys.keys().next().value!);
    this.#keys.set(id, key);
    return key;
  }
}

/** Who the token says it is from, before any of it is believed. */
function claimedIssuer(token: string): ExecutorId {
  let issuer: unknown;
  try {
    issuer = decodeJwt(token).iss;
  } catch (cause) {
    throw unauthenticated(
      "the bearer token is neither an API key (dsk_…) nor an executor token (a signed JWT)",
      cause,
    );
  }
  if (!ExecutorIdSchema.safeParse(issuer).success) {
    throw unauthenticated("the token's iss is not an executor id; sign it with iss = the id from enrolment");
  }
  return issuer as ExecutorId;
}

function reason(cause: unknown, nowMs: number): string {
  const time = `here it is ${new Date(nowMs).toISOString()}: set the clock by the Date header of this answer`;
  if (cause instanceof errors.JWTExpired) return `the token has expired; ${time}`;
  if (cause instanceof errors.JWTClaimValidationFailed) {
    const isTime = ["iat", "nbf", "exp"].includes(cause.claim) && cause.reason === "check_failed";
    return isTime
      ? `the token's ${cause.claim} is out of range; ${time}`
      : `the token's ${cause.claim} is wrong`;
  }
  if (cause instanceof errors.JOSEAlgNotAllowed) return "the token's alg must be EdDSA";
  if (cause instanceof errors.JWSSignatureVerificationFailed) {
    return "the token is not signed by the key that this executor enrolled with";
  }
  return "the token does not verify";
}

function unauthenticated(message: string, cause?: unknown): DsecError {
  return new DsecError("UNAUTHENTICATED", message, { cause });
}
