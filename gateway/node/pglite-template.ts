/** The data folder that new embedded databases begin as: a quarter of a second, where making one takes four. */
import { createHash } from "node:crypto";
import { cpSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Closed cleanly, with the migrations applied; made by setup/pglite-template.ts. */
export const TEMPLATE = fileURLToPath(new URL("../../build/pglite-template", import.meta.url));

/** Where a template says what it was made from. */
export const STAMP = "dsec-template";

/** What a template of this version is made from: PGlite, the migrations, and what applies them. */
export function templateStamp(): string {
  const hash = createHash("sha256");
  hash.update(readFileSync(createRequire(import.meta.url).resolve("@electric-sql/pglite")));
  for (const file of ["migrations.gen.ts", "migrate.ts"]) {
    hash.update(readFileSync(new URL(`../store/${file}`, import.meta.url)));
  }
  return hash.digest("hex");
}

export function isTemplateCurrent(template = TEMPLATE): boolean {
  const stamp = join(template, STAMP);
  return existsSync(stamp) && readFileSync(stamp, "utf8") === templateStamp();
}

/**
 * Copied beside and renamed, so that a copy that was cut short is never taken for a database. Does nothing where the
 * template is of another version: the database is then made anew.
 */
export function copyTemplate(data: string, template = TEMPLATE): void {
  if (!isTemplateCurrent(template)) return;
  const beside = `${data}.new`;
  rmSync(beside, { recursive: true, force: true });
  cpSync(template, beside, { recursive: true });
  rmSync(data, { recursive: true, force: true });
  renameSync(beside, data);
}
