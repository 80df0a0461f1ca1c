import { hexOf } from "#core/bytes.ts";
import { DsecError } from "#core/errors.ts";
import type { KeyId } from "#core/ids.ts";
import type { KeyRecord, Store } from "#gateway/ports.ts";
import { decodeCursor, pageOf } from "./cursor.ts";
import { type KeyRow, keyOf } from "./rows.ts";
import type { StoreContext } from "./store.ts";
import { storableText } from "./text.ts";

const COLUMNS = "id, name, scopes, secret_hash, created_at, expires_at, revoked_at, last_used_at";

export function keyStore({
  sql,
}: StoreContext): Pick<Store, "createKey" | "findKey" | "listKeys" | "revokeKey"> {
  return {
    async createKey(key) {
      const [row] = await sql.query<KeyRow>(
        `insert into keys (id, name, scopes, secret_hash, created_at, expires_at)
         values ($1, $2, $3::text::jsonb, decode($4, 'hex'), dsec_now(), $5::text::timestamptz)
         returning ${COLUMNS}`,
        [key.id, storableText(key.name), JSON.stringify(key.scopes), hexOf(key.secretHash), key.expiresAt],
      );
      return keyOf(row!);
    },

    async findKey(id) {
      const [row] = await sql.query<KeyRow & { stale: boolean }>(
        `select ${COLUMNS}, coalesce(last_used_at < dsec_now() - interval '1 minute', true) as stale
         from keys where id = $1`,
        [id],
      );
      if (!row) return null;
      // Once a minute is fine enough for people, and keeps reads from becoming writes.
      if (row.stale) await sql.query("update keys set last_used_at = dsec_now() where id = $1", [id]);
      const record: KeyRecord = { ...keyOf(row), secret_hash: new Uint8Array(row.secret_hash) };
      return record;
    },

    async listKeys({ limit, cursor }) {
      const rows = await sql.query<KeyRow>(
        `select ${COLUMNS} from keys where ($1::text is null or id < $1) order by id desc limit $2`,
        [cursor === undefined ? null : decodeCursor(cursor, "key"), limit + 1],
      );
      return pageOf(rows, limit, keyOf);
    },

    async revokeKey(id) {
      const [row] = await sql.query<KeyRow>(
        `update keys set revoked_at = coalesce(revoked_at, dsec_now()) where id = $1 returning ${COLUMNS}`,
        [id],
      );
      if (!row) throw keyNotFound(id);
      return keyOf(row);
    },
  };
}

function keyNotFound(id: KeyId): DsecError {
  return new DsecError("KEY_NOT_FOUND", `there is no key ${id}; list the keys to see their ids`);
}
