/** The bindings of wrangler.toml. */
import type { GatewayRoom } from "./gateway-room.ts";

export type EdgeEnvironment = {
  GATEWAY: DurableObjectNamespace<GatewayRoom>;
  /** PostgreSQL; in `wrangler dev` and tests its `localConnectionString`. */
  HYPERDRIVE: Hyperdrive;
  /** Outputs, artifacts and captured streams. */
  BLOBS: R2Bucket;
  /** The files of the reference page. */
  ASSETS?: Fetcher;
  /** Public origin: `iss` of attestations and `aud` of executor tokens. */
  ISSUER: string;
  /** How many rooms share the load; all instances must agree. */
  ROOMS: string;
  /**
   * Secret: `{"current": JWK, "next"?: JWK, "retired"?: [{jwk, published_until}]}`. `current` and `next` are private
   * (`next` may be public), the retired ones public with an RFC 3339 time.
   */
  SIGNING_KEYS: string;
  /** Secret: 32 random bytes in base64url, the key that tasks' secrets are sealed with. Without it there are none. */
  SECRETS_KEY?: string;
  /** Secret: an API key `dsk_…` that gets every scope where the database does not know it yet. */
  ADMIN_KEY?: string;
};
