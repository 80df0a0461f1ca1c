import type { CompiledPolicy } from "./compile.ts";
import { type Allowed, type Denied, decide, deny } from "./decide.ts";
import { originOf, type Target, urlFromBytes } from "./url.ts";

export type RedirectDecision =
  /** Make this call next, with the headers that `survives` keeps, and without the body where `dropBody` says so. */
  | { kind: "follow"; decision: Allowed; dropBody: boolean; survives(header: string): boolean }
  /** It is the answer: no redirect, one without Location, or the policy leaves redirects to the caller. */
  | { kind: "answer" }
  | { kind: "refused"; denied: Denied };

/**
 * Judges a response that may send the call elsewhere (RFC 9110 section 15.4). Every hop is a call of its own under the
 * whole policy, the addresses behind it included, which the caller judges as for the first.
 * @param hops the calls made so far in this chain, the one that was answered last
 * @param location the value of the only Location field, one character for each byte, or null; more than one field is the caller's to refuse
 */
export function decideRedirect(
  compiled: CompiledPolicy,
  hops: readonly [Allowed, ...Allowed[]],
  response: { status: number; location: string | null },
): RedirectDecision {
  const { status, location } = response;
  const limit = compiled.policy.redirects_max;
  if (!REDIRECTS.has(status) || location === null || limit === 0) return { kind: "answer" };
  const from = hops.at(-1)!;
  const hop = `hop ${hops.length}, from ${originOf(from.target)}`;
  const refuse = (denied: Denied): RedirectDecision => {
    return { kind: "refused", denied: { ...denied, message: `redirect (${hop}): ${denied.message}` } };
  };
  if (hops.length > limit) {
    return refuse(deny("TOO_MANY_REDIRECTS", `the policy allows ${limit}`, from.method, from.target));
  }
  const method = methodAfter(status, from.method);
  const url = resolve(urlFromBytes(location), from.target);
  const decision = decide(compiled, { method, url });
  if (!decision.allowed) {
    const downgrade = from.target.scheme === "https" && decision.code === "PLAIN_HTTP_NOT_ALLOWED";
    return refuse(
      downgrade ? { ...decision, message: `from https: to http:, ${decision.message}` } : decision,
    );
  }
  if (hops.some((earlier) => earlier.method === method && earlier.target.url === decision.target.url)) {
    return refuse(deny("TOO_MANY_REDIRECTS", "it goes in a loop", method, decision.target));
  }
  const sameOrigin = originOf(from.target) === originOf(decision.target);
  const injected = new Set(hops.flatMap((earlier) => earlier.secrets.map((secret) => secret.header)));
  const dropBody = method !== from.method;
  const survives = (header: string): boolean => {
    const name = header.toLowerCase();
    if (injected.has(name)) return false; // injected anew for where it now goes, or not at all
    if (dropBody && /^content-|^transfer-encoding$|^trailer$/.test(name)) return false;
    return sameOrigin || HARMLESS.has(name) || (!dropBody && name.startsWith("content-"));
  };
  return { kind: "follow", decision, dropBody, survives };
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * What may go to another origin. A list of what to keep, not of what to drop: API keys travel in headers of any name.
 */
const HARMLESS: ReadonlySet<string> = new Set([
  "accept",
  "accept-encoding",
  "accept-language",
  "cache-control",
  "pragma",
  "range",
  "user-agent",
]);

/** As the Fetch standard does, and with it every browser: a POST becomes a GET at 301 and 302, all but HEAD at 303. */
function methodAfter(status: number, method: string): string {
  if (status === 303) return method === "HEAD" ? "HEAD" : "GET";
  return (status === 301 || status === 302) && method === "POST" ? "GET" : method;
}

/**
 * A Location against the URL that was asked (RFC 3986 section 5). What is malformed is handed on as it is, so that
 * `decide` refuses it as it would from a caller; only relative references are completed here.
 */
function resolve(location: string, base: Target): string {
  // `http:path` and `http:/path` are repaired by some parsers and relative to others.
  if (/^[a-z][a-z0-9+.-]*:/i.test(location)) return location;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  if (/[\x00-\x20\x7f\\]/.test(location)) return location;
  if (location.startsWith("//")) return `${base.scheme}:${location}`;
  return new URL(location, base.url).href;
}
