import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import type { Attestation } from "#core/wire/attestations.ts";
import { TestExecutor } from "#test/support/attestation.ts";
import { type PostgresServer, startPostgres } from "#test/support/postgres.ts";
import { startWranglerDev, type WranglerDev } from "#test/support/wrangler-dev.ts";
import { signEnrolment } from "#trace/attestation/enrolment.ts";
import { CAPACITY, Client, ExecutorClient, ISSUER, readEvents } from "./gateway-under-test.ts";

let postgres: PostgresServer;
let wrangler: WranglerDev;
beforeAll(async () => {
  postgres = await startPostgres();
  wrangler = await startWranglerDev({ postgresUrl: await postgres.emptyDatabase(), issuer: ISSUER });
});
afterAll(async () => {
  await wrangler?.stop();
  await postgres?.stop();
});

const reach = (path: string, init?: RequestInit) => fetch(wrangler.url + path, init);

async function enrolled(): Promise<ExecutorClient> {
  const identity = new TestExecutor();
  const admin = new Client(reach, wrangler.adminKey, "admin");
  const enrolment = {
    public_key: identity.publicKey,
    capacity: CAPACITY,
    images: [],
    build: "0.1.0+test",
    host: { hostname: "host-1", kernel: "6.18.0", cgroup: "v2" as const, arch: "x64" },
  };
  const request = await signEnrolment(enrolment, {
    apiKey: wrangler.adminKey,
    nowMs: Date.now(),
    sign: identity.sign,
  });
  const { executor_id } = await admin.ok<{ executor_id: string }>("POST", "/v1/executors/enrol", request);
  return new ExecutorClient(reach, identity, executor_id, { nowMs: Date.now() });
}

test("wrangler dev serves the way of a task over a port, streams included", async () => {
  const admin = new Client(reach, wrangler.adminKey, "admin");
  const executor = await enrolled();
  const polled = executor.acquire(LIMITS.longPollMs);
  const artifact = await admin.upload("input");
  const task = await admin.submit({ inputs: [{ artifact, mount_path: "/input" }] });
  const followed = admin.send("GET", `/v1/tasks/${task.id}/events`).then((response) => readEvents(response));
  const [lease] = await polled;
  expect(lease?.task_id).toBe(task.id);
  await executor.start(lease!);
  await executor.print(lease!, "hello\n");
  await executor.finish(lease!, { stdout: "hello\n", files: { "/work/output.json": "{}" } });

  expect((await followed).map(({ event }) => event)).toEqual(["state", "state", "state", "stdout", "state"]);
  const { items } = await admin.ok<{ items: Attestation[] }>("GET", `/v1/tasks/${task.id}/attestations`);
  const jwks = createRemoteJWKSet(new URL("/.well-known/jwks.json", wrangler.url));
  const { payload } = await jwtVerify(items[0]!.jwt, jwks, { issuer: ISSUER });
  expect(payload.sub).toBe(task.id);
  expect((await reach("/docs/assets/swagger-ui.css")).status).toBe(200);
});

test("the bundle for the edge is small and imports nothing that workerd lacks", () => {
  const folder = mkdtempSync(join(tmpdir(), "dsec-bundle-"));
  try {
    execFileSync(join("node_modules", ".bin", "wrangler"), ["deploy", "--dry-run", "--outdir", folder], {
      stdio: "pipe",
      env: { ...process.env, WRANGLER_SEND_METRICS: "false", WRANGLER_SEND_ERROR_REPORTS: "false" },
    });
    const bundle = readFileSync(join(folder, "worker.js"), "utf8");
    const imports = [
      ...bundle.matchAll(/(?:\bfrom|\bimport|\brequire)\s*\(?\s*"((?:node|cloudflare):[^"]+)"/g),
    ];
    // These are workerd's own (nodejs_compat); postgres.js asks for them. Nothing of ours asks for any `node:`.
    expect([...new Set(imports.map((match) => match[1]))].sort()).toEqual([
      "cloudflare:sockets",
      "cloudflare:workers",
      "node:buffer",
      "node:events",
      "node:stream",
    ]);
    expect(bundle).not.toMatch(/Dynamic require of|unenv/);
    // A Worker may have 3 MiB compressed; uncompressed is far below that already.
    expect(bundle.length).toBeLessThan(2 * 1024 * 1024);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
