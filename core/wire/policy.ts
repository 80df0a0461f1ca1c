import { z } from "zod";
import { DsecError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { formatAddress, formatCidr, parseCidr, specialRangeOf } from "../policy/address.ts";
import { comparablePath, hidesTraversal } from "../policy/path.ts";
import { formatRuleHost, overlaps, parseRuleHost } from "../policy/rule-host.ts";
import { DigestSchema, strict, text } from "./common.ts";

/** A host exactly, or `*.suffix`: every name below the suffix and not the suffix itself. Canonical after loading. */
const ruleHost = text(300).transform((raw, context) => {
  try {
    return formatRuleHost(parseRuleHost(raw));
  } catch (error) {
    if (!(error instanceof DsecError)) throw error;
    context.addIssue({ code: "custom", message: error.message });
    return z.NEVER;
  }
});

/** In the form that request paths are compared in, so that a prefix never silently fails to match. */
const pathPrefix = text(2048).superRefine((prefix, context) => {
  const given = prefix.startsWith("/") ? prefix : `/${prefix}`;
  const path = comparablePath(new URL(`https://h${given.replaceAll(/[?#\\]/g, "")}`).pathname);
  const issue = (message: string) => context.addIssue({ code: "custom", message });
  if (hidesTraversal(prefix) || /\/\/|;|%(?:2f|5c|25)/i.test(prefix)) {
    issue("must not hold //, ; or an escape that can be read as a separator");
  } else if (prefix !== path) {
    issue(`write it as ${path}`);
  }
});

/** An address or block in which the rule may connect although it is not public. */
const privateBlock = z.string().superRefine((raw, context) => {
  const cidr = parseCidr(raw);
  const issue = (message: string) => context.addIssue({ code: "custom", message });
  if (cidr === null)
    return issue("must be an address, or a block with no bits after its prefix: 127.0.0.1, 10.1.0.0/16");
  if (specialRangeOf(cidr) === undefined) {
    return issue(
      "must lie in one special range; public addresses need no permission, IPv4 is written as IPv4",
    );
  }
  const canonical = raw.includes("/") ? formatCidr(cidr) : formatAddress(cidr.address);
  if (raw !== canonical) issue(`write it as ${canonical}`);
});

/** CONNECT is judged by the requests inside it; TRACE would send injected secrets back in its answer. */
const UNLISTABLE_METHODS = ["CONNECT", "TRACE", "TRACK"];
const method = z
  .string()
  .regex(/^[A-Z][A-Z-]{0,31}$/, "must be a method in upper case")
  .refine((name) => !UNLISTABLE_METHODS.includes(name), "must not be CONNECT, TRACE or TRACK");

export const PolicyRuleSchema = strict({
  host: ruleHost,
  /** Without it: 443, and 80 where `plain_http` is set. */
  port: z.number().int().min(1).max(65_535).optional(),
  /** Without it: every method but CONNECT, TRACE and TRACK. */
  methods: z.array(method).min(1).max(LIMITS.policyRuleEntries).optional(),
  path_prefix: pathPrefix.optional(),
  /** TLS is passed through unopened: only host and port are judged, no secrets, no fingerprint. */
  opaque: z.boolean().optional(),
  allow_private: z.array(privateBlock).min(1).max(LIMITS.policyRuleEntries).optional(),
  /** `http:` is allowed besides `https:`. */
  plain_http: z.boolean().optional(),
}).superRefine((rule, context) => {
  if (!rule.opaque) return;
  for (const member of ["methods", "path_prefix", "plain_http"] as const) {
    if (rule[member] === undefined || rule[member] === false) continue;
    const message = "cannot be enforced where the connection is opaque; drop one of the two";
    context.addIssue({ code: "custom", path: [member], message });
  }
});
export type PolicyRule = z.output<typeof PolicyRuleSchema>;

/** The gateway sets the header to the named secret's value; the policy holds the name only. */
export const PolicySecretSchema = strict({
  host: ruleHost,
  path_prefix: pathPrefix.optional(),
  header: z
    .string()
    .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/, "must be a header name (RFC 9110 section 5.1)")
    .transform((name) => name.toLowerCase())
    .refine((name) => !FRAMING_HEADERS.test(name), "is set by the gateway and cannot carry a secret"),
  secret: z.string().regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/, "must be a secret's name, not its value"),
  /** Sends the secret unencrypted too. Only for a host named exactly. */
  plain_http: z.boolean().optional(),
}).refine((secret) => !(secret.plain_http && secret.host.startsWith("*.")), {
  path: ["plain_http"],
  message: "needs an exact host: a secret in plain text must not follow a wildcard",
});
export type PolicySecret = z.output<typeof PolicySecretSchema>;

/** Of routing and framing: a secret there would be lost on the way or change what the message is. */
const FRAMING_HEADERS =
  /^(host|connection|content-length|transfer-encoding|te|trailer|upgrade|keep-alive|expect|proxy-.*|dsec-.*)$/;

export const PolicyFingerprintSchema = strict({
  host: ruleHost,
  path_prefix: pathPrefix.optional(),
  /** Members of a JSON response that are left out of its fingerprint (JSON Pointer, RFC 6901). */
  ignore: z
    .array(
      text(1024).regex(/^(?:\/(?:[^~/]|~[01])*)+$/, "must be a JSON Pointer to a member, such as /meta/time"),
    )
    .max(LIMITS.policyRuleEntries)
    .optional(),
  /** The response must have this fingerprint: the JSON one where it is JSON, else that of the decoded body. */
  pin: DigestSchema.optional(),
}).refine((rule) => rule.ignore !== undefined || rule.pin !== undefined, "needs ignore or pin, or both");
export type PolicyFingerprint = z.output<typeof PolicyFingerprintSchema>;

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

export const PolicyBudgetsSchema = strict({
  calls: count.optional(),
  bytes_up: count.optional(),
  bytes_down: count.optional(),
  /** Sustained rate to each host; one second's worth (one call at least) may come at once. */
  per_host_calls_per_s: z.number().gt(0).max(LIMITS.callsPerSMax).optional(),
});
export type PolicyBudgets = z.output<typeof PolicyBudgetsSchema>;

/** What a task may reach. `{}` reaches nothing. */
export const PolicySchema = strict({
  rules: z.array(PolicyRuleSchema).max(LIMITS.policyRules).default([]),
  secrets: z.array(PolicySecretSchema).max(LIMITS.policyRules).default([]),
  fingerprints: z.array(PolicyFingerprintSchema).max(LIMITS.policyRules).default([]),
  budgets: PolicyBudgetsSchema.default({}),
  /** Of calls whose redirects the gateway follows (tools, `api-call`). 0 hands every redirect back to the caller. */
  redirects_max: z.number().int().min(0).max(LIMITS.redirectsMax).default(LIMITS.redirectsDefault),
  /** Of the body, as sent and decoded. One that is known to be longer is refused before its first byte. */
  response_bytes_max: z
    .number()
    .int()
    .min(0)
    .max(LIMITS.responseBytesMax)
    .default(LIMITS.responseBytesDefault),
  timeout_ms_max: z.number().int().min(1).max(LIMITS.callTimeoutMsMax).default(LIMITS.callTimeoutMsDefault),
  /** Refuses calls on runtimes that cannot connect to the address that was checked. */
  require_pinned_dns: z.boolean().default(false),
}).superRefine((policy, context) => {
  const opened = policy.rules.filter((rule) => !rule.opaque).map((rule) => parseRuleHost(rule.host));
  for (const list of ["secrets", "fingerprints"] as const) {
    const seen = new Set<string>();
    for (const [index, entry] of policy[list].entries()) {
      const issue = (message: string) => context.addIssue({ code: "custom", path: [list, index], message });
      // A secret that is never sent and a pin that is never checked are mistakes, not settings.
      const host = parseRuleHost(entry.host);
      if (!opened.some((rule) => overlaps(rule, host))) {
        issue(`no rule reaches ${entry.host} other than opaquely; add a rule or remove this`);
      }
      const key = JSON.stringify([
        entry.host,
        entry.path_prefix ?? "",
        "header" in entry ? entry.header : "",
      ]);
      if (seen.has(key)) issue("says again what an earlier entry says for the same host and path_prefix");
      seen.add(key);
    }
  }
});
/** What a client sends. */
export type PolicyRequest = z.input<typeof PolicySchema>;
/** With every default filled in and every host canonical: what is stored, digested and enforced. */
export type Policy = z.output<typeof PolicySchema>;
