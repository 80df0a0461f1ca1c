import { DsecError } from "../errors.ts";
import { canonicalHost, type Host, quote } from "./host.ts";

/** What a rule names: one host, or every name below one (`*.example.com`: not `example.com` itself). */
export type RuleHost = { kind: "exact"; host: Host } | { kind: "below"; suffix: string };

/**
 * Reads a rule's host and makes it canonical, so that a rule in Unicode matches the A-labels that requests carry.
 * @throws DsecError POLICY_INVALID, naming the host and what to write instead
 */
export function parseRuleHost(raw: string): RuleHost {
  if (raw === "*" || raw === "*.") throw invalid(raw, "deny by default is the point; name the hosts");
  if (raw.startsWith(".")) {
    throw invalid(raw, `write *${raw} for the names below it, and ${raw.slice(1)} for the name itself`);
  }
  const suffix = raw.startsWith("*.") ? raw.slice(2) : null;
  if (raw.includes("*", suffix === null ? 0 : 1)) throw invalid(raw, "* stands only in front: *.example.com");
  if (suffix === null && /:\d*$/.test(raw) && !raw.endsWith("]") && raw.split(":").length === 2) {
    throw invalid(raw, "the port is a member of its own: port");
  }
  const host = canonical(suffix ?? raw, raw);
  if (host.kind === "address") {
    if (suffix !== null) throw invalid(raw, "there are no names below an address");
    if (raw !== host.text) throw invalid(raw, `write the address as ${host.text}`);
  }
  if (suffix === null) return { kind: "exact", host };
  if (!host.text.includes("."))
    throw invalid(raw, "a whole top-level domain is too wide; name two labels or more");
  return { kind: "below", suffix: host.text };
}

/** The rule's host as policies carry it after loading. */
export function formatRuleHost(host: RuleHost): string {
  return host.kind === "exact" ? host.host.text : `*.${host.suffix}`;
}

/** Whether some host is named by both. */
export function overlaps(a: RuleHost, b: RuleHost): boolean {
  if (a.kind === "exact" && b.kind === "exact") return a.host.text === b.host.text;
  if (a.kind === "exact") return b.kind === "below" && isBelow(a.host, b.suffix);
  if (b.kind === "exact") return isBelow(b.host, a.suffix);
  return a.suffix === b.suffix || a.suffix.endsWith(`.${b.suffix}`) || b.suffix.endsWith(`.${a.suffix}`);
}

function isBelow(host: Host, suffix: string): boolean {
  return host.kind === "name" && host.text.endsWith(`.${suffix}`);
}

function canonical(text: string, raw: string): Host {
  try {
    return canonicalHost(text);
  } catch (cause) {
    if (cause instanceof DsecError) throw new DsecError("POLICY_INVALID", cause.message, { cause });
    throw invalid(raw, "it is no host", cause);
  }
}

function invalid(raw: string, why: string, cause?: unknown): DsecError {
  return new DsecError("POLICY_INVALID", `host ${quote(raw)}: ${why}`, { cause });
}
