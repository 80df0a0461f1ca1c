/**
 * Writes gateway/store/migrations.gen.ts from migrations/*.sql, because edge code cannot read files.
 * Run it after `drizzle-kit generate`: `node setup/migrations.ts`. A test holds the two equal.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = new URL("../", import.meta.url);

export function migrationsModule(): string {
  const names = readdirSync(new URL("migrations/", root)).filter((name) => name.endsWith(".sql"));
  const entries = names.sort().map((name) => {
    const text = readFileSync(new URL(`migrations/${name}`, root), "utf8").replaceAll(
      "--> statement-breakpoint",
      "",
    );
    const literal = text.replace(/[\\`]|\$\{/g, (match) => `\\${match}`);
    return `  {\n    name: ${JSON.stringify(name.replace(/\.sql$/, ""))},\n    sql: \`${literal}\`,\n  },\n`;
  });
  return `// Written by setup/migrations.ts from migrations/*.sql; do not edit.\nexport const MIGRATIONS: readonly { name: string; sql: string }[] = [\n${entries.join("")}];\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(new URL("gateway/store/migrations.gen.ts", root), migrationsModule());
}
