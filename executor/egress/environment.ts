/** What makes unmodified programs inside a sandbox go through its loopback proxy and trust it. */
import { rootCertificates } from "node:tls";
import type { Policy } from "#core/wire/policy.ts";
import type { Authority } from "./authority.ts";

/** On the sandbox's 127.0.0.1. */
export const PROXY_PORT = 3128;

/** Where the sandbox finds the certificates that it is to trust. */
export const TRUST_FOLDER = "/run/dsec";
export const TRUST_NAME = "ca.pem";
export const TRUST_PATH = `${TRUST_FOLDER}/${TRUST_NAME}`;

/** Both cases of each name: curl reads `http_proxy` in lower case only, others in upper case first. */
export const EGRESS_ENVIRONMENT: Readonly<Record<string, string>> = {
  ...inBothCases({
    HTTP_PROXY: `http://127.0.0.1:${PROXY_PORT}`,
    HTTPS_PROXY: `http://127.0.0.1:${PROXY_PORT}`,
    ALL_PROXY: `http://127.0.0.1:${PROXY_PORT}`,
    NO_PROXY: "127.0.0.1,localhost,::1",
  }),
  // Node's own fetch and agents heed the proxy variables only when asked to.
  NODE_USE_ENV_PROXY: "1",
  SSL_CERT_FILE: TRUST_PATH,
  CURL_CA_BUNDLE: TRUST_PATH,
  REQUESTS_CA_BUNDLE: TRUST_PATH,
  NODE_EXTRA_CA_CERTS: TRUST_PATH,
  GIT_SSL_CAINFO: TRUST_PATH,
  PIP_CERT: TRUST_PATH,
};

/**
 * PEM of what the sandbox trusts: its own authority, and nothing else unless the policy lets TLS through unopened, where
 * the upstream shows its own certificate. Decided at launch; a policy that changes later does not change it.
 */
export function trustedCertificates(authority: Authority, policy: Policy): string {
  const isOpaqueSomewhere = policy.rules.some((rule) => rule.opaque);
  return [authority.certificate, ...(isOpaqueSomewhere ? rootCertificates : [])].join("\n");
}

function inBothCases(variables: Record<string, string>): Record<string, string> {
  const both = Object.entries(variables).flatMap(([name, value]) => [
    [name, value],
    [name.toLowerCase(), value],
  ]);
  return Object.fromEntries(both);
}
