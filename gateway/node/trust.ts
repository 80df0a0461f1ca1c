import { getCACertificates } from "node:tls";

/**
 * What connections to upstreams trust: the runtime's own authorities (Mozilla's, and NODE_EXTRA_CA_CERTS) and these
 * beside them. Undefined where there are none, which is the runtime's default.
 * @param ca in PEM
 */
export function trustedAuthorities(ca: string | string[] | undefined): string[] | undefined {
  return ca === undefined ? undefined : [...getCACertificates("default"), ...[ca].flat()];
}
