/** Makes the data folder that new embedded databases begin as. Does nothing where that of this version is there. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { pgliteSql } from "#gateway/node/pglite.ts";
import { isTemplateCurrent, STAMP, TEMPLATE, templateStamp } from "#gateway/node/pglite-template.ts";
import { migrate } from "#gateway/store/migrate.ts";

if (!isTemplateCurrent()) {
  const beside = `${TEMPLATE}.new`;
  rmSync(beside, { recursive: true, force: true });
  mkdirSync(dirname(beside), { recursive: true });
  const sql = await pgliteSql(beside);
  await migrate(sql);
  await sql.close();
  writeFileSync(join(beside, STAMP), templateStamp());
  rmSync(TEMPLATE, { recursive: true, force: true });
  renameSync(beside, TEMPLATE);
}
