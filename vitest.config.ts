import { defineConfig } from "vitest/config";

/** Fresh process for each file; real parts take seconds to start, hence the generous hook time. */
const common = { pool: "forks", testTimeout: 60_000, hookTimeout: 120_000 } as const;

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...common,
          name: "unit",
          include: ["test/{core,trace,gateway,sdk,cli,tidy}/**/*.test.ts"],
        },
      },
      // needs root, namespaces and cgroups
      { test: { ...common, name: "linux", include: ["test/{native,executor}/**/*.test.ts"], fileParallelism: false } },
      // the whole system
      { test: { ...common, name: "flow", include: ["test/flow/**/*.test.ts"], fileParallelism: false, testTimeout: 300_000 } },
    ],
  },
});
