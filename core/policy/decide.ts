import { DsecError, type ErrorCode } from "../errors.ts";
import type { PolicyFingerprint, PolicySecret } from "../wire/policy.ts";
import {
  type Address,
  type Cidr,
  contains,
  effectiveAddress,
  formatAddress,
  judgeAddress,
  parseAddress,
} from "./address.ts";
import { type CompiledPolicy, type CompiledRule, entriesFor, type HostEntry } from "./compile.ts";
import { quote } from "./host.ts";
import { comparablePath, hidesTraversal, isUnder } from "./path.ts";
import { DEFAULT_PORT, parseUrl, type Target } from "./url.ts";

export type Call = { method: string; url: string };

export type Allowed = {
  allowed: true;
  /**
   * `direct`: one request, made by us. `opened`: a CONNECT whose TLS we end, and whose requests are each decided.
   * `opaque`: a CONNECT that is passed through unopened.
   */
  passage: "direct" | "opened" | "opaque";
  method: string;
  target: Target;
  /** The most specific of the rules that hold. */
  rule: CompiledRule;
  /** Addresses that are not public and may be reached all the same: the `allow_private` of every rule that holds. */
  allowPrivate: readonly Cidr[];
  /** To be set as headers by whoever makes the call, over what the caller sent; at most one for each header. */
  secrets: { header: string; secret: string }[];
  fingerprint: PolicyFingerprint | null;
};

export type Denied = {
  allowed: false;
  code: ErrorCode;
  /** For the caller and the log: holds neither path nor query, which may carry secrets. */
  message: string;
  method: string;
  /** Null where the URL could not be read. */
  target: Target | null;
};

export type Decision = Allowed | Denied;

/**
 * Whether a call may be made: the one decision behind every form of request. CONNECT is decided by host and port
 * (`https://host:port/`). Rules only ever add reach: a call that one rule allows, no other rule takes back.
 * The names behind `target.host` are judged by `decideAddresses` once they are resolved.
 */
export function decide(compiled: CompiledPolicy, call: Call): Decision {
  const { method } = call;
  let target: Target;
  try {
    target = parseUrl(call.url);
  } catch (error) {
    if (error instanceof DsecError) return deny(error.code, error.message, method, null);
    throw error;
  }
  if (!TOKEN.test(method) || REFLECTING.test(method) || MISSPELT_CONNECT.test(method)) {
    const message = `method ${quote(method)} is never allowed`;
    return deny("METHOD_NOT_ALLOWED_BY_POLICY", message, method, target);
  }
  const entries = entriesFor(compiled, target.host);
  const decision = method === "CONNECT" ? decideTunnel(entries, target) : decideCall(entries, method, target);
  if (target.host.kind === "address" && (decision.allowed || decision.code === "DOMAIN_NOT_ALLOWED")) {
    const verdict = decideAddress(target.host.address, decision.allowed ? decision.allowPrivate : []);
    if (verdict !== null) return deny("ADDRESS_NOT_ALLOWED", `${where(target)}: ${verdict}`, method, target);
  }
  return decision;
}

export type AddressVerdict =
  /** Connect to these and to no other; the TLS name and the Host field stay those of the target. */
  { allowed: true; addresses: string[] } | { allowed: false; code: ErrorCode; message: string };

/**
 * Judges every answer of one look-up of the target's name. One answer that the rule may not reach refuses them all:
 * an attacker's name server would otherwise hide a private address among public ones and wait for its turn.
 */
export function decideAddresses(decision: Allowed, answers: readonly string[]): AddressVerdict {
  const refuse = (why: string) => {
    const message = `${where(decision.target)}: ${why}`;
    return { allowed: false, code: "ADDRESS_NOT_ALLOWED", message } as const;
  };
  if (answers.length === 0) return refuse("the name has no address");
  const addresses = new Set<string>();
  for (const answer of answers) {
    const address = parseAddress(answer);
    if (address === null) return refuse(`${quote(answer)} is no address`);
    const effective = effectiveAddress(address);
    const refusal = decideAddress(effective, decision.allowPrivate);
    if (refusal !== null) return refuse(refusal);
    addresses.add(formatAddress(effective));
  }
  return { allowed: true, addresses: [...addresses] };
}

/** Stands in for `decideAddresses` on a runtime that resolves and connects by itself (Workers): names only. */
export function decideUnpinned(
  compiled: CompiledPolicy,
): { allowed: true } | { allowed: false; code: ErrorCode; message: string } {
  if (!compiled.policy.require_pinned_dns) return { allowed: true };
  const message =
    "the policy requires pinned DNS, which this runtime cannot give; send the call to a proxy on Node";
  return { allowed: false, code: "DNS_NOT_PINNED", message };
}

/** What a log says of a decision: the same members for every form of request, allowed or not. */
export function auditFields(decision: Decision) {
  const { allowed, method, target } = decision;
  return {
    allowed,
    code: decision.allowed ? null : decision.code,
    method,
    scheme: target?.scheme ?? null,
    host: target?.host.text ?? null,
    port: target?.port ?? null,
    rule: decision.allowed ? decision.rule.name : null,
  };
}

/** A refusal; the same shape wherever in the policy it is made. */
export function deny(code: ErrorCode, message: string, method: string, target: Target | null): Denied {
  return { allowed: false, code, message, method, target };
}

/** Why a connection to the address is refused, or null where it may be made. */
function decideAddress(address: Address, allowPrivate: readonly Cidr[]): string | null {
  const judgement = judgeAddress(address);
  if (judgement.kind === "public" || allowPrivate.some((cidr) => contains(cidr, address))) return null;
  const why = `${formatAddress(address)} lies in ${judgement.range}: ${judgement.reason}`;
  return `${why}; only a rule whose allow_private names it may reach it`;
}

/** RFC 9110 section 5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;
/** These answer with the request that they got, injected secrets and all. */
const REFLECTING = /^(?:trace|track)$/i;
/** CONNECT in another case is no CONNECT to us, and must not be one to the upstream. */
const MISSPELT_CONNECT = /^(?!CONNECT$)[Cc][Oo][Nn][Nn][Ee][Cc][Tt]$/;

function decideCall(entries: HostEntry[], method: string, target: Target): Decision {
  if (entries.some((entry) => entry.readsPath) && hidesTraversal(target.path)) {
    const message = `${where(target)}: the path hides a .. segment, and the policy judges paths of this host`;
    return deny("PATH_NOT_ALLOWED", message, method, target);
  }
  const path = comparablePath(target.path);
  let nearest = 0;
  const holding: CompiledRule[] = [];
  for (const { rules } of entries) {
    for (const rule of rules) {
      const failed = failedPart(rule, method, target, path);
      if (failed === HOLDS) holding.push(rule);
      else nearest = Math.max(nearest, failed);
    }
  }
  const [rule] = holding;
  if (rule === undefined) return refusal(PARTS[nearest]!, method, target);
  const secrets = rule.opaque ? [] : secretsFor(entries, target, path);
  const fingerprint = rule.opaque ? null : fingerprintFor(entries, path);
  const allowPrivate = holding.flatMap((each) => each.allowPrivate);
  return { allowed: true, passage: "direct", method, target, rule, allowPrivate, secrets, fingerprint };
}

/** The scheme inside a tunnel is not known yet, so a rule without a port holds at the default port of each it allows. */
function decideTunnel(entries: HostEntry[], target: Target): Decision {
  const method = "CONNECT";
  const { port } = target;
  const rules = entries.flatMap((entry) => entry.rules);
  const holding = rules.filter((rule) => {
    if (rule.port !== null) return rule.port === port;
    return port === DEFAULT_PORT.https || (rule.plainHttp && port === DEFAULT_PORT.http);
  });
  const [rule] = holding;
  if (rule === undefined) {
    return refusal(rules.length === 0 ? "DOMAIN_NOT_ALLOWED" : "PORT_NOT_ALLOWED", method, target);
  }
  const passage = rule.opaque ? "opaque" : "opened";
  // A rule that wants to see the requests lends its addresses to no tunnel that hides them.
  const allowPrivate = holding
    .filter((each) => each.opaque === rule.opaque)
    .flatMap((each) => each.allowPrivate);
  return { allowed: true, passage, method, target, rule, allowPrivate, secrets: [], fingerprint: null };
}

/** The parts of a rule in the order in which they are asked; the furthest that some rule got to names the refusal. */
const PARTS = [
  "DOMAIN_NOT_ALLOWED",
  "PLAIN_HTTP_NOT_ALLOWED",
  "PORT_NOT_ALLOWED",
  "METHOD_NOT_ALLOWED_BY_POLICY",
  "PATH_NOT_ALLOWED",
] as const;
type Part = (typeof PARTS)[number];
const HOLDS = PARTS.length;

/** Index in PARTS of what does not hold, or HOLDS. The host holds already: it found the rule. */
function failedPart(rule: CompiledRule, method: string, target: Target, path: string): number {
  if (target.scheme === "http" && !rule.plainHttp) return 1;
  if ((rule.port ?? DEFAULT_PORT[target.scheme]) !== target.port) return 2;
  if (rule.methods !== null && !rule.methods.has(method)) return 3;
  if (rule.pathPrefix !== null && !isUnder(path, rule.pathPrefix)) return 4;
  return HOLDS;
}

function refusal(part: Part, method: string, target: Target): Denied {
  const why = {
    DOMAIN_NOT_ALLOWED: "no rule names this host",
    PLAIN_HTTP_NOT_ALLOWED: "no rule for this host allows http:; use https: or set plain_http",
    PORT_NOT_ALLOWED: `no rule for this host names port ${target.port}; without one it is the scheme's default`,
    METHOD_NOT_ALLOWED_BY_POLICY: `no rule for this host names method ${method}`,
    PATH_NOT_ALLOWED: "no rule for this host has a path_prefix that holds the path",
  }[part];
  return deny(part, `${where(target)}: ${why}`, method, target);
}

function secretsFor(entries: HostEntry[], target: Target, path: string): Allowed["secrets"] {
  const byHeader = new Map<string, PolicySecret>();
  for (const entry of entries) {
    for (const secret of entry.secrets) {
      if (target.scheme === "http" && !secret.plain_http) continue;
      if (secret.path_prefix !== undefined && !isUnder(path, secret.path_prefix)) continue;
      if (!byHeader.has(secret.header)) byHeader.set(secret.header, secret);
    }
  }
  return [...byHeader.values()].map(({ header, secret }) => ({ header, secret }));
}

function fingerprintFor(entries: HostEntry[], path: string): PolicyFingerprint | null {
  for (const entry of entries) {
    for (const fingerprint of entry.fingerprints) {
      if (fingerprint.path_prefix === undefined || isUnder(path, fingerprint.path_prefix)) return fingerprint;
    }
  }
  return null;
}

function where(target: Target): string {
  return `${target.scheme}://${target.host.text}:${target.port}`;
}
