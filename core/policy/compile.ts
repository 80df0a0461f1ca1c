import { DsecError } from "../errors.ts";
import { faultText, readAs } from "../schema-faults.ts";
import { type Policy, type PolicyFingerprint, PolicySchema, type PolicySecret } from "../wire/policy.ts";
import { type Cidr, containsCidr, parseCidr } from "./address.ts";
import type { Host } from "./host.ts";
import { parseRuleHost } from "./rule-host.ts";

export type CompiledRule = {
  /** For logs and receipts: position and host, such as `rules[3] *.example.com`. */
  name: string;
  /** Null: the scheme's default port. */
  port: number | null;
  /** Null: all but CONNECT, TRACE and TRACK. */
  methods: ReadonlySet<string> | null;
  pathPrefix: string | null;
  opaque: boolean;
  plainHttp: boolean;
  allowPrivate: readonly Cidr[];
};

/** Everything that a policy says of one rule host, the most specific first. */
export type HostEntry = {
  rules: CompiledRule[];
  secrets: PolicySecret[];
  fingerprints: PolicyFingerprint[];
  /** Whether anything here depends on the path, so that its reading matters. */
  readsPath: boolean;
};

/** A policy as it is enforced: found by host in one hash lookup for each label, however many rules there are. */
export type CompiledPolicy = {
  policy: Policy;
  exact: ReadonlyMap<string, HostEntry>;
  below: ReadonlyMap<string, HostEntry>;
};

/**
 * Reads a policy that comes from outside.
 * @throws DsecError POLICY_INVALID naming every faulty member by its path; nothing of a faulty policy is enforced
 */
export function loadPolicy(value: unknown): Policy {
  const read = readAs(PolicySchema, value);
  if (read.ok) return read.value;
  const { faults } = read;
  const shown = faults.slice(0, 10).map(faultText).join("; ");
  throw new DsecError("POLICY_INVALID", `policy: ${shown}${faults.length > 10 ? " …" : ""}`, {
    details: { issues: faults.slice(0, 100) },
  });
}

export function compilePolicy(policy: Policy): CompiledPolicy {
  const exact = new Map<string, HostEntry>();
  const below = new Map<string, HostEntry>();
  const entryOf = (host: string): HostEntry => {
    const named = parseRuleHost(host);
    const [map, key] = named.kind === "exact" ? [exact, named.host.text] : [below, named.suffix];
    let entry = map.get(key);
    if (entry === undefined) {
      entry = { rules: [], secrets: [], fingerprints: [], readsPath: false };
      map.set(key, entry);
    }
    return entry;
  };
  policy.rules.forEach((rule, index) => {
    entryOf(rule.host).rules.push({
      name: `rules[${index}] ${rule.host}`,
      port: rule.port ?? null,
      methods: rule.methods ? new Set(rule.methods) : null,
      pathPrefix: rule.path_prefix ?? null,
      opaque: rule.opaque ?? false,
      plainHttp: rule.plain_http ?? false,
      allowPrivate: (rule.allow_private ?? []).map(blockOf),
    });
  });
  for (const secret of policy.secrets) entryOf(secret.host).secrets.push(secret);
  for (const fingerprint of policy.fingerprints) entryOf(fingerprint.host).fingerprints.push(fingerprint);
  for (const entry of [...exact.values(), ...below.values()]) {
    entry.rules.sort(bySpecificity);
    const longestFirst = (a: { path_prefix?: string | undefined }, b: { path_prefix?: string | undefined }) =>
      (b.path_prefix?.length ?? 0) - (a.path_prefix?.length ?? 0);
    entry.secrets.sort(longestFirst);
    entry.fingerprints.sort(longestFirst);
    entry.readsPath =
      entry.rules.some((rule) => rule.pathPrefix !== null) ||
      [...entry.secrets, ...entry.fingerprints].some((one) => one.path_prefix !== undefined);
  }
  return { policy, exact, below };
}

/** What the policy says of a host: its own entry, then those of ever shorter suffixes. */
export function entriesFor(compiled: CompiledPolicy, host: Host): HostEntry[] {
  const entries: HostEntry[] = [];
  const own = compiled.exact.get(host.text);
  if (own !== undefined) entries.push(own);
  if (host.kind === "address" || compiled.below.size === 0) return entries;
  for (let dot = host.text.indexOf("."); dot >= 0; dot = host.text.indexOf(".", dot + 1)) {
    const entry = compiled.below.get(host.text.slice(dot + 1));
    if (entry !== undefined) entries.push(entry);
  }
  return entries;
}

/**
 * Refuses `allow_private` blocks that the operator has not opened. Tasks bring their policies with them, so without
 * this bound whoever may submit a task could reach the gateway's own network.
 * @param opened the operator's blocks, in the same notation
 * @throws DsecError POLICY_FORBIDDEN naming the rule and the block; POLICY_INVALID where `opened` is malformed
 */
export function refusePrivateBeyond(policy: Policy, opened: readonly string[]): void {
  const bounds = opened.map((text) => {
    const cidr = parseCidr(text);
    if (cidr === null)
      throw new DsecError("POLICY_INVALID", `opened private range ${text}: it is no address or block`);
    return cidr;
  });
  policy.rules.forEach((rule, index) => {
    for (const text of rule.allow_private ?? []) {
      if (bounds.some((bound) => containsCidr(bound, blockOf(text)))) continue;
      const what = `rules[${index}].allow_private ${text}`;
      throw new DsecError(
        "POLICY_FORBIDDEN",
        `policy: ${what} is not opened to tasks by this gateway's operator`,
      );
    }
  });
}

/** A rule that says more about a call is asked before one that says less; equal ones in the order they were written. */
function bySpecificity(a: CompiledRule, b: CompiledRule): number {
  return (
    Number(b.port !== null) - Number(a.port !== null) ||
    (b.pathPrefix?.length ?? 0) - (a.pathPrefix?.length ?? 0) ||
    Number(b.methods !== null) - Number(a.methods !== null)
  );
}

function blockOf(text: string): Cidr {
  const cidr = parseCidr(text);
  if (cidr === null)
    throw new DsecError("POLICY_INVALID", `allow_private ${text}: it is no address or block`);
  return cidr;
}
