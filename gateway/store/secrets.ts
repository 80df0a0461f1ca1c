import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { Secret } from "#core/wire/secrets.ts";
import type { SealedSecret, Store } from "#gateway/ports.ts";
import type { StoreContext } from "./store.ts";

type SecretMethods = "claimSecretsKey" | "putSecret" | "listSecrets" | "findSecrets" | "deleteSecret";

/** Secrets of API keys. Values come and go sealed; only `findSecrets` reads them. */
export function secretStore({ sql }: StoreContext): Pick<Store, SecretMethods> {
  return {
    async claimSecretsKey(keyDigest) {
      await sql.query(
        "insert into secrets_key (digest, claimed_at) values ($1, dsec_now()) on conflict do nothing",
        [keyDigest],
      );
      const [row] = await sql.query<{ digest: string }>("select digest from secrets_key");
      return row?.digest === keyDigest;
    },

    async putSecret(keyId, { name, hosts, sealed }) {
      const [row] = await sql.transaction(async (query) => {
        // A statement sees what was committed before it began: the count is by one that begins when the key is locked.
        await query("select 1 from keys where id = $1 for no key update", [keyId]);
        return query<SecretRow & { created: boolean }>(
          `insert into secrets as s (key_id, name, hosts, sealed, created_at, updated_at)
           select $1, $2, $3::text::jsonb, $4, now, now from (select dsec_now() as now) n
           where (select count(*) from secrets c where c.key_id = $1 and c.name <> $2) < $5
           on conflict (key_id, name) do update
             set hosts = excluded.hosts, sealed = excluded.sealed, updated_at = excluded.updated_at
           returning s.name, s.hosts, s.created_at, s.updated_at, s.created_at = s.updated_at as created`,
          [keyId, name, JSON.stringify(hosts), sealed, LIMITS.secretsPerKey],
        );
      });
      if (row) return { secret: secretOf(row), created: row.created };
      throw new DsecError(
        "INVALID_REQUEST",
        `key ${keyId} has ${LIMITS.secretsPerKey} secrets, which is the most; delete one first`,
      );
    },

    async listSecrets(keyId) {
      const rows = await sql.query<SecretRow>(
        "select name, hosts, created_at, updated_at from secrets where key_id = $1 order by name",
        [keyId],
      );
      return rows.map(secretOf);
    },

    findSecrets(keyId, names) {
      return sql.query<SealedSecret>(
        `select name, hosts, sealed from secrets
         where key_id = $1 and name in (select value from jsonb_array_elements_text($2::text::jsonb))`,
        [keyId, JSON.stringify(names)],
      );
    },

    async deleteSecret(keyId, name) {
      const rows = await sql.query("delete from secrets where key_id = $1 and name = $2 returning name", [
        keyId,
        name,
      ]);
      if (rows.length > 0) return;
      throw new DsecError(
        "SECRET_NOT_FOUND",
        `there is no secret ${name} of this key; list them to see names`,
      );
    },
  };
}

type SecretRow = { name: string; hosts: string[]; created_at: Date; updated_at: Date };

function secretOf({ name, hosts, created_at, updated_at }: SecretRow): Secret {
  return { name, hosts, created_at: created_at.toISOString(), updated_at: updated_at.toISOString() };
}
