import { defineConfig } from "drizzle-kit";

/** `npx drizzle-kit generate` writes the next migration from the schema; `node setup/migrations.ts` embeds it. */
export default defineConfig({
  dialect: "postgresql",
  schema: ["./gateway/store/schema.ts", "./gateway/store/schema-messages.ts"],
  out: "./migrations",
});
