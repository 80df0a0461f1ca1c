import type { Digest } from "#core/ids.ts";
import type { Store } from "#gateway/ports.ts";
import type { StoreContext } from "./store.ts";

/** Which key may name which content. What a key's tasks put out is recorded as they complete (leases.ts). */
export function artifactStore({ sql }: StoreContext): Pick<Store, "recordArtifact" | "unknownArtifacts"> {
  return {
    async recordArtifact(keyId, digest, size) {
      await sql.query(
        `insert into artifacts (key_id, digest, size_bytes, created_at) values ($1, $2, $3, dsec_now())
         on conflict do nothing`,
        [keyId, digest, size],
      );
    },

    async unknownArtifacts(keyId, digests) {
      if (digests.length === 0) return [];
      const rows = await sql.query<{ digest: Digest }>(
        `select d.digest from jsonb_array_elements_text($2::text::jsonb) as d(digest)
         join artifacts a on a.key_id = $1 and a.digest = d.digest`,
        [keyId, JSON.stringify(digests)],
      );
      const known = new Set(rows.map((row) => row.digest));
      return [...new Set(digests)].filter((digest) => !known.has(digest));
    },
  };
}
