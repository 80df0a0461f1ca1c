import { availableParallelism } from "node:os";
import { cloudflareTest } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import type { EdgeFixture } from "./test/support/edge.ts";

/** Real parts take seconds to start, and a busy machine stands still for some, hence the generous times. */
const times = {
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 20_000 } },
} as const;
/** Fresh process for each file. */
const common = { pool: "forks", ...times } as const;
const databaseTemplate = "test/support/database-template.ts";

// workerd is run on this machine alone.
process.env.CLOUDFLARE_CF_FETCH_ENABLED ??= "false";
process.env.WRANGLER_SEND_METRICS ??= "false";
process.env.WRANGLER_SEND_ERROR_REPORTS ??= "false";

export default defineConfig({
  test: {
    // Tests wait for processes and deadlines more than they compute, and each knows what is its own on the host.
    maxWorkers: Math.max(2, availableParallelism()),
    onUnhandledError(error) {
      // postgres.js closing a socket in workerd; nothing waits for that stream any more.
      if (error.message === "Stream was cancelled.") return false;
    },
    projects: [
      {
        test: {
          ...common,
          name: "unit",
          include: ["test/{core,trace,gateway,sdk,cli,bench,tidy}/**/*.test.ts"],
          globalSetup: [databaseTemplate],
        },
      },
      // needs root, namespaces and cgroups
      {
        test: {
          ...common,
          name: "linux",
          include: ["test/{native,executor}/**/*.test.ts"],
          globalSetup: ["test/support/native-programs.ts", databaseTemplate],
        },
      },
      // the whole system
      {
        test: {
          ...common,
          name: "flow",
          include: ["test/flow/**/*.test.ts"],
          globalSetup: [databaseTemplate],
          testTimeout: 300_000,
        },
      },
      // the gateway in workerd, against a real PostgreSQL
      {
        plugins: [
          cloudflareTest(({ inject }) => {
            const { postgresUrl, signingKeys, secretsKey, adminKey, ...upstreams } =
              inject<EdgeFixture>("edge");
            // wrangler.toml names no database: a deployment's is its own.
            process.env.CLOUDFLARE_HYPERDRIVE_LOCAL_CONNECTION_STRING_HYPERDRIVE = postgresUrl;
            return {
              wrangler: { configPath: "./wrangler.toml" },
              miniflare: {
                bindings: {
                  SIGNING_KEYS: signingKeys,
                  SECRETS_KEY: secretsKey,
                  UPSTREAM_PORT: upstreams.upstreamPort,
                  HOSTILE_PORT: upstreams.hostilePort,
                  HOSTILE_ANSWERS: upstreams.hostileAnswers,
                  ADMIN_KEY: adminKey,
                  ISSUER: "https://dsec.example",
                  ROOMS: "2",
                },
              },
            };
          }),
        ],
        test: {
          ...times,
          name: "edge",
          include: ["test/edge/**/*.test.ts"],
          globalSetup: ["test/support/edge.ts"],
          // Megabytes go through workerd several times.
          testTimeout: 180_000,
        },
      },
    ],
  },
});
