/** What an executor answers for of its last life, told to a real gateway whose leases are short. */
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sha256 } from "#core/json.ts";
import type { WireResources } from "#core/wire/common.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { Result, Task } from "#core/wire/tasks.ts";
import { AttemptFolder } from "#executor/attempt-folder.ts";
import { EMPTY_STREAM } from "#executor/evidence.ts";
import { GatewayClient } from "#executor/gateway-client.ts";
import { openIdentity } from "#executor/identity.ts";
import { Leases } from "#executor/leases.ts";
import { recoverAttempts } from "#executor/recover.ts";
import { renewLeases } from "#executor/renew.ts";
import { CAPACITY, ISSUER, openTestGateway, type TestGateway } from "#test/gateway/gateway-under-test.ts";
import { signEvidence } from "#trace/attestation/evidence.ts";
import { eventually } from "./executor-under-test.ts";

/** Short enough to be waited for, and long enough for a busy machine to renew within. */
const LEASE_TTL_MS = 8_000;

let gateway: TestGateway;
let directory: string;
beforeAll(async () => {
  gateway = await openTestGateway({ leaseTtlMs: LEASE_TTL_MS });
  directory = mkdtempSync(join(tmpdir(), "dsec-recover-"));
});
afterAll(async () => {
  await gateway?.close();
  await rm(directory, { recursive: true, force: true });
});

/** An enrolled executor with an attempt of each of so many tasks, as the folders lie there after a crash. */
async function crashed(tasks: number, retries = 0) {
  const home = mkdtempSync(join(directory, "executor-"));
  const attempts = join(home, "attempts");
  mkdirSync(attempts);
  const identity = await openIdentity(home);
  const held: { put: Promise<void> | null; asked: string[] } = { put: null, asked: [] };
  const client = new GatewayClient({
    ...{ gatewayUrl: ISSUER, identity },
    fetch: async (request) => {
      held.asked.push(`${request.method} ${new URL(request.url).pathname}`);
      if (request.method === "PUT") await held.put;
      return gateway.app.fetch(request);
    },
  });
  const enroller = await gateway.client("executors:enrol");
  const capacity: WireResources = CAPACITY;
  const executorId = await client.enrol(enroller.secret, {
    ...{ public_key: identity.publicKey, capacity, images: [], build: "0.1.0+test" },
    host: { hostname: "host-1", kernel: "6.18.0", cgroup: "v2", arch: "x64" },
  });
  const user = await gateway.client("tasks");
  const submitted: Task[] = [];
  for (let n = 0; n < tasks; n++) submitted.push(await user.submit({ retries }));
  const request = { free: CAPACITY, max_leases: tasks, wait_ms: 0 };
  const { leases } = await client.acquire(request, new AbortController().signal);
  expect(leases).toHaveLength(tasks);
  const folderOf = async ({ lease_id, fence }: Lease) =>
    (await AttemptFolder.make(join(attempts, "nobody's"))).giveTo(attempts, { lease_id, fence });
  const folders: AttemptFolder[] = [];
  for (const lease of leases) folders.push(await folderOf(lease));
  return {
    ...{ client, executorId, identity, user, submitted, leases, folders, attempts, held },
    async finish(lease: Lease, folder: AttemptFolder) {
      const text = `output of ${lease.task_id}`;
      writeFileSync(folder.stdout, text);
      const stdout = { digest: await sha256(text), kept_bytes: text.length, total_bytes: text.length };
      const outcome: Result["outcome"] = { reason: "exited", exit_code: 0, signal: null, message: null };
      const result: Result = { outcome, outputs: [], stdout, stderr: EMPTY_STREAM };
      // Whatever executor of the test's says it, but for the name.
      const teller = await gateway.executor();
      const evidence = { ...teller.evidence(lease, result), executor_id: executorId };
      const { lease_id, fence } = lease;
      folder.writeFinish({
        hold: { lease_id, fence },
        complete: { fence, result, evidence: await signEvidence(evidence, identity.sign) },
        trace: null,
      });
    },
  };
}

test("results that survived a crash are kept for as long as it takes to bring them to the gateway", async () => {
  const { client, user, submitted, leases, folders, attempts, held, finish } = await crashed(2);
  for (const [n, lease] of leases.entries()) await finish(lease, folders[n]!);
  const uploads = Promise.withResolvers<void>();
  held.put = uploads.promise;
  const closing = new AbortController();
  const failures: unknown[] = [];
  const parts = {
    ...{ client, leases: new Leases(), signal: closing.signal },
    onFailure: (error: unknown) => void failures.push(error),
  };
  const renewing = renewLeases(parts);
  const recovered = recoverAttempts({
    ...{ ...parts, folders, trajectories: [] },
    collector: { sealLeft: () => Promise.reject(new Error("nothing was recorded")) },
  });
  await eventually(() => held.asked.some((request) => request.startsWith("PUT ")));
  const grantedUntilMs = Math.max(...leases.map(({ expires_at }) => Date.parse(expires_at)));
  await eventually(() => Date.now() > grantedUntilMs + 500);
  uploads.resolve();
  await recovered;
  expect(failures).toEqual([]);
  for (const { id } of submitted) {
    expect(await user.ok<Task>("GET", `/v1/tasks/${id}`)).toMatchObject({ state: "succeeded", attempts: 1 });
  }
  expect(await readdir(attempts)).toEqual([]);
  // Answered for, and renewed no more.
  expect(parts.leases.size).toBe(0);
  closing.abort();
  await renewing;
});

test("a task whose finish cannot be read any more has ended, and is not run again", async () => {
  const { client, user, submitted, leases, folders, attempts, finish } = await crashed(1, 2);
  await finish(leases[0]!, folders[0]!);
  writeFileSync(join(folders[0]!.path, "finish.json"), '{"hold": {}, "of": "another version"}');
  const failures: unknown[] = [];
  await recoverAttempts({
    ...{ client, leases: new Leases(), signal: new AbortController().signal, folders, trajectories: [] },
    collector: { sealLeft: () => Promise.reject(new Error("nothing was recorded")) },
    onFailure: (error) => void failures.push(error),
  });
  expect(failures).toEqual([]);
  const task = await user.ok<Task>("GET", `/v1/tasks/${submitted[0]!.id}`);
  expect(task).toMatchObject({
    state: "dead",
    attempts: 1,
    result: { outcome: { reason: "record_failed" } },
  });
  expect(task.result!.outcome.message).toMatch(
    new RegExp(`^INTERNAL: what ${leases[0]!.lease_id} left .* cannot be read$`),
  );
  expect(await readdir(attempts)).toEqual([]);
});

test("a result whose lease is held no more is not uploaded", async () => {
  const { client, leases, folders, attempts, held, finish } = await crashed(1);
  await finish(leases[0]!, folders[0]!);
  const { signal } = new AbortController();
  await client.release({ lease_id: leases[0]!.lease_id, fence: leases[0]!.fence }, signal);
  const before = held.asked.length;
  const failures: unknown[] = [];
  await recoverAttempts({
    ...{ client, leases: new Leases(), signal, folders, trajectories: [] },
    collector: { sealLeft: () => Promise.reject(new Error("nothing was recorded")) },
    onFailure: (error) => void failures.push(error),
  });
  expect(held.asked.slice(before)).toEqual(["POST /v1/leases/renew"]);
  expect(failures).toEqual([]);
  expect(await readdir(attempts)).toEqual([]);
});
