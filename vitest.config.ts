import { cloudflareTest } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import type { EdgeFixture } from "./test/support/edge.ts";

/** Real parts take seconds to start, hence the generous times. */
const times = { testTimeout: 60_000, hookTimeout: 120_000 } as const;
/** Fresh process for each file. */
const common = { pool: "forks", ...times } as const;

/** Parts of the executor that need no sandbox, and so no place of their own in the line of those that do. */
const withoutSandbox = [
  "test/executor/memory/{memory,routes,sqlite-database,store}.test.ts",
  "test/executor/messages/**/*.test.ts",
  "test/executor/images/import.test.ts",
  "test/executor/egress/{authority,client-hello,current-policy,decisions,spool}.test.ts",
  "test/executor/{artifact-cache,glob,identity,output-stream,plan}.test.ts",
];

// workerd is run on this machine alone.
process.env.CLOUDFLARE_CF_FETCH_ENABLED ??= "false";
process.env.WRANGLER_SEND_METRICS ??= "false";
process.env.WRANGLER_SEND_ERROR_REPORTS ??= "false";

export default defineConfig({
  test: {
    onUnhandledError(error) {
      // postgres.js closing a socket in workerd; nothing waits for that stream any more.
      if (error.message === "Stream was cancelled.") return false;
    },
    projects: [
      {
        test: {
          ...common,
          name: "unit",
          include: ["test/{core,trace,gateway,sdk,cli,tidy}/**/*.test.ts", ...withoutSandbox],
        },
      },
      // needs root, namespaces and cgroups
      {
        test: {
          ...common,
          name: "linux",
          include: ["test/{native,executor}/**/*.test.ts"],
          exclude: withoutSandbox,
          fileParallelism: false,
        },
      },
      // the whole system
      {
        test: {
          ...common,
          name: "flow",
          include: ["test/flow/**/*.test.ts"],
          fileParallelism: false,
          testTimeout: 300_000,
        },
      },
      // the gateway in workerd, against a real PostgreSQL
      {
        plugins: [
          cloudflareTest(({ inject }) => {
            const { postgresUrl, signingKeys, secretsKey, adminKey, upstreamPort } =
              inject<EdgeFixture>("edge");
            // wrangler.toml names no database: a deployment's is its own.
            process.env.CLOUDFLARE_HYPERDRIVE_LOCAL_CONNECTION_STRING_HYPERDRIVE = postgresUrl;
            return {
              wrangler: { configPath: "./wrangler.toml" },
              miniflare: {
                bindings: {
                  SIGNING_KEYS: signingKeys,
                  SECRETS_KEY: secretsKey,
                  UPSTREAM_PORT: upstreamPort,
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
        },
      },
    ],
  },
});
