/**
 * Makes build/pglite-template, the data folder that new embedded databases begin as: closed cleanly, migrations
 * applied. Does nothing when the one that is there was made from the same PGlite and the same migrations.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pgliteSql, TEMPLATE } from "#gateway/node/pglite.ts";
import { migrate } from "#gateway/store/migrate.ts";
import { MIGRATIONS } from "#gateway/store/migrations.gen.ts";

const engine = readFileSync(createRequire(import.meta.url).resolve("@electric-sql/pglite"));
const madeFrom = createHash("sha256").update(engine).update(JSON.stringify(MIGRATIONS)).digest("hex");
const stamp = join(TEMPLATE, "dsec-template");

if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== madeFrom) {
  const beside = `${TEMPLATE}.new`;
  rmSync(beside, { recursive: true, force: true });
  mkdirSync(dirname(beside), { recursive: true });
  const sql = await pgliteSql(beside);
  await migrate(sql);
  await sql.close();
  writeFileSync(join(beside, "dsec-template"), madeFrom);
  rmSync(TEMPLATE, { recursive: true, force: true });
  renameSync(beside, TEMPLATE);
}
