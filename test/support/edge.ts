/** What the tests in workerd stand on, made on Node before them: a PostgreSQL, secrets of one run, and the assets. */
import { execFileSync } from "node:child_process";
import { exportJWK, generateKeyPair } from "jose";
import type { TestProject } from "vitest/node";
import { mintKey } from "#gateway/auth.ts";
import { startPostgres } from "./postgres.ts";

export type EdgeFixture = { postgresUrl: string; signingKeys: string; adminKey: string };

declare module "vitest" {
  interface ProvidedContext {
    edge: EdgeFixture;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  execFileSync("sh", ["gateway/edge/reference-files.sh"]);
  const server = await startPostgres();
  const privateJwk = async (alg: string) =>
    exportJWK((await generateKeyPair(alg, { extractable: true })).privateKey);
  project.provide("edge", {
    // Empty: the gateway brings it up to date itself.
    postgresUrl: await server.emptyDatabase(),
    signingKeys: JSON.stringify({ current: await privateJwk("EdDSA"), next: await privateJwk("ES256") }),
    adminKey: (await mintKey()).secret,
  });
  return () => server.stop();
}
