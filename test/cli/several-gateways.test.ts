/** Several gateways on one database, each a `dsec gateway` over a data folder of its own, as on hosts of their own. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type OpenGateway, openGateway } from "#cli/compose.ts";
import { createClient } from "#sdk/client.ts";
import { type PostgresServer, startPostgres } from "#test/support/postgres.ts";

let postgres: PostgresServer;
let folder: string;
let database: string;
const opened: OpenGateway[] = [];

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "dsec-several-gateways-"));
  database = await postgres.database();
});
afterEach(async () => {
  for (const gateway of opened.splice(0)) await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

test("gateways with one shared folder are one gateway to their clients", async () => {
  const a = await open("a", "shared");
  const b = await open("b", "shared");
  // One client, now at the one and now at the other.
  const [atA, atB] = [a, b].map(({ gateway }) => createClient({ gateway: gateway.url, apiKey: a.adminKey }));
  const content = new TextEncoder().encode("brought to one of them");
  const { artifact } = await atA!.artifacts.put(content);
  expect(await atB!.artifacts.get(artifact)).toEqual(content);
  expect(await atB!.jwks()).toEqual(await atA!.jwks());
});

test("a gateway with other blobs and keys than the database's does not begin to serve", async () => {
  const first = await open("a");
  await expect(open("b")).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining(`another folder than ${join(folder, "b")}`),
  });
  // It took nothing away: the one that was there first serves on, and again after a restart.
  await createClient({ gateway: first.gateway.url, apiKey: first.adminKey }).keys.list();
  await opened.pop()!.close();
  await open("a");
});

async function open(data: string, shared?: string): Promise<OpenGateway> {
  const gateway = await openGateway({
    data: join(folder, data),
    shared: shared && join(folder, shared),
    host: "127.0.0.1",
    port: 0,
    database,
    log: () => {},
  });
  opened.push(gateway);
  return gateway;
}
