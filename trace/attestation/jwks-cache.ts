import { joined } from "#core/bytes.ts";
import { DsecError } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { type KeySet, readJwks, type VerificationKey } from "./keys.ts";

export type JwksCache = {
  /** The key, or null where the JWKS has none of this kid. GATEWAY_UNREACHABLE where that cannot be known. */
  find(kid: string): Promise<VerificationKey | null>;
};

/**
 * A JWKS kept from its URL. A kid it does not know may be a new key, so it is fetched again at once, but at most once
 * for each cool-down however many unknown kids arrive. A key that was withdrawn is refused after `maxAgeMs` at the
 * latest. While the URL does not answer, known keys go on working for `outageGraceMs` beyond that.
 */
export function createJwksCache(options: {
  url: string;
  fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** Milliseconds since the epoch. */
  now: () => number;
  cooldownMs?: number;
  maxAgeMs?: number;
  outageGraceMs?: number;
  timeoutMs?: number;
}): JwksCache {
  const { url, now, maxAgeMs = 600_000, outageGraceMs = 3_600_000, timeoutMs = 5_000 } = options;
  // a longer one would keep a set in force past its age
  const cooldownMs = Math.min(options.cooldownMs ?? 30_000, maxAgeMs);
  let held: { set: KeySet; atMs: number } | null = null;
  /** When the cool-down began: with the last fetch that failed, or that only an unknown kid was the reason for. */
  let cooledAtMs: number | null = null;
  let failure: DsecError | null = null;
  let underWay: Promise<void> | null = null;

  const refresh = async () => {
    const startedAtMs = now();
    // A fetch because of the age starts none: a key may be made right after it.
    if (isFresh()) cooledAtMs = startedAtMs;
    try {
      const set = await fetchJwks(options.fetch, url, timeoutMs);
      held = { set, atMs: now() };
      failure = null;
    } catch (error) {
      cooledAtMs = startedAtMs;
      failure = unreachable(url, error);
    }
  };
  /** One fetch at a time: whoever comes while it is under way waits for the same answer. */
  const refreshOnce = async () => {
    if (underWay) return underWay;
    if (cooledAtMs !== null && ageMs(cooledAtMs) < cooldownMs) return;
    underWay = refresh().finally(() => {
      underWay = null;
    });
    return underWay;
  };
  /** A clock that stepped back makes the age unknown: as good as too old. */
  const ageMs = (sinceMs: number) => (now() >= sinceMs ? now() - sinceMs : Number.POSITIVE_INFINITY);
  const isFresh = () => held !== null && ageMs(held.atMs) < maxAgeMs;

  return {
    async find(kid) {
      const known = isFresh() ? held?.set.keys.get(kid) : undefined;
      if (known) return known;
      await refreshOnce();
      // the set may be old now only because the URL failed, or because the cool-down after a failure still runs
      if (!held || ageMs(held.atMs) >= maxAgeMs + outageGraceMs)
        throw failure ?? unreachable(url, "no answer yet");
      const key = held.set.keys.get(kid);
      // "no such key" is an answer only while the set is of today
      if (!key && failure) throw failure;
      return key ?? null;
    },
  };
}

async function fetchJwks(
  fetch: (url: string, init: RequestInit) => Promise<Response>,
  url: string,
  timeoutMs: number,
) {
  const abort = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = new Error(`no whole answer within ${timeoutMs} ms`);
      reject(error);
      abort.abort(error);
    }, timeoutMs);
  });
  const read = async () => {
    const response = await fetch(url, {
      headers: { accept: "application/json" },
      // a redirect would let whoever controls the old address name the keys
      redirect: "manual",
      signal: abort.signal,
    });
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new Error(`it answered ${response.status}`);
    }
    const set = await readJwks(parseJson(await readBounded(response, LIMITS.jwksBytes), "the JWKS"));
    return set;
  };
  try {
    return await Promise.race([read(), timeout]);
  } finally {
    if (timer !== undefined) clearTimeout(timer);
  }
}

async function readBounded(response: Response, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = (response.body as ReadableStream<Uint8Array> | null)?.getReader();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > maxBytes) {
      await reader.cancel();
      throw new Error(`it sends more than ${maxBytes} bytes`);
    }
    chunks.push(value);
  }
  return joined(chunks);
}

function unreachable(url: string, cause: unknown): DsecError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new DsecError("GATEWAY_UNREACHABLE", `JWKS ${url}: ${why}; verify offline with a saved copy of it`, {
    cause,
  });
}
