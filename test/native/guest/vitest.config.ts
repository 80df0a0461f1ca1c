import { defineConfig } from "vitest/config";

/** The launcher's tests with the patience that an emulated processor needs. Run by inside.sh. */
export default defineConfig({
  test: {
    include: ["test/native/*.test.ts", "test/native/guest/version-two.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 300_000,
  },
});
