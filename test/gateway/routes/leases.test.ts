import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { newId } from "#core/ids.ts";
import { sha256 } from "#core/json.ts";
import type { Attestation, Evidence } from "#core/wire/attestations.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { Result, Task } from "#core/wire/tasks.ts";
import { leastMs } from "#test/support/least-ms.ts";
import {
  CAPACITY,
  type Client,
  type ExecutorClient,
  openTestGateway,
  type TestGateway,
} from "../gateway-under-test.ts";

let gateway: TestGateway;
let client: Client;
let executor: ExecutorClient;
beforeAll(async () => {
  gateway = await openTestGateway();
  client = await gateway.client("tasks");
  executor = await gateway.executor();
});
afterAll(() => gateway.close());

async function running(request = {}): Promise<{ task: Task; lease: Lease; path: string }> {
  const task = await client.submit(request);
  const [lease] = await executor.acquire();
  expect(lease?.task_id).toBe(task.id);
  await executor.start(lease!);
  return { task, lease: lease!, path: `/v1/leases/${lease!.lease_id}` };
}

const now = () => performance.now();

test("a long poll gets a task without waiting for a look of its own, and nothing after its time", async () => {
  const startMs = now();
  expect(await executor.acquire(150)).toEqual([]);
  expect(now() - startMs).toBeGreaterThan(140);

  const tookMs = await leastMs(500, async () => {
    const waiting = executor.acquire(10_000).then((leases) => ({ leases, atMs: now() }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    const task = await client.submit();
    const submittedMs = now();
    const { leases, atMs } = await waiting;
    expect(leases[0]?.task_id).toBe(task.id);
    await executor.finish(leases[0]!);
    return atMs - submittedMs;
  });
  // it would look again by itself after 750 ms at the earliest
  expect(tookMs).toBeLessThan(500);
});

test("a lease whose poller left goes back unburned instead of waiting for its expiry", async () => {
  const leaving = new AbortController();
  const { store } = gateway;
  const acquire = store.acquireLeases;
  store.acquireLeases = async (...args) => {
    const leases = await acquire.apply(store, args);
    leaving.abort(); // the client goes at the worst moment: between the grant and the answer
    return leases;
  };
  const task = await client.submit();
  try {
    const body = JSON.stringify({ free: CAPACITY, wait_ms: 0 });
    const headers = { authorization: `Bearer ${await executor.token()}`, "content-type": "application/json" };
    await gateway.fetch("/v1/leases", { method: "POST", body, headers, signal: leaving.signal });
  } finally {
    store.acquireLeases = acquire;
  }
  expect(await client.ok("GET", `/v1/tasks/${task.id}`)).toMatchObject({ state: "queued", attempts: 0 });
  const [lease] = await executor.acquire();
  expect(lease).toMatchObject({ task_id: task.id, attempt: 1 });
  await executor.finish(lease!);
});

test("a poller that left before anything came takes nothing", async () => {
  const leaving = new AbortController();
  const body = JSON.stringify({ free: CAPACITY, wait_ms: 20_000 });
  const headers = { authorization: `Bearer ${await executor.token()}`, "content-type": "application/json" };
  const poll = gateway.fetch("/v1/leases", { method: "POST", body, headers, signal: leaving.signal });
  await new Promise((resolve) => setTimeout(resolve, 50));
  leaving.abort();
  expect(await (await poll).json()).toEqual({ leases: [] });
});

test("an executor has its poll answered when it says so, with what was granted at that moment", async () => {
  const stands = async () => {
    const poll = executor.acquire(20_000);
    await new Promise((resolve) => setTimeout(resolve, 50));
    return poll;
  };
  const other = await gateway.executor();
  const ofOther = other.acquire(20_000);
  const isOver = vi.fn();
  void ofOther.then(isOver);
  const [polled] = await Promise.all([
    stands(),
    new Promise((resolve) => setTimeout(resolve, 100)).then(() => executor.ok("POST", "/v1/leases/end-poll")),
  ]);
  expect(polled).toEqual([]);
  expect(isOver).not.toHaveBeenCalled();

  // The end comes between the grant and its answer.
  const { store } = gateway;
  const acquire = store.acquireLeases;
  store.acquireLeases = async (...args) => {
    const leases = await acquire.apply(store, args);
    await executor.ok("POST", "/v1/leases/end-poll");
    return leases;
  };
  await other.ok("POST", "/v1/leases/end-poll");
  await ofOther;
  const task = await client.submit();
  try {
    const [lease] = await executor.acquire(20_000);
    expect(lease).toMatchObject({ task_id: task.id, attempt: 1 });
    await executor.finish(lease!);
  } finally {
    store.acquireLeases = acquire;
  }
});

test("cancelling a running task reaches its executor within a second, and the attempt is attested as cancelled", async () => {
  const { task, lease } = await running();
  const waiting = executor
    .ok<{ leases: unknown[] }>("GET", "/v1/leases/cancellations?wait_ms=10000")
    .then((answer) => ({ answer, atMs: now() }));
  await new Promise((resolve) => setTimeout(resolve, 50));
  const cancelled = await client.ok<Task>("POST", `/v1/tasks/${task.id}/cancel`);
  const askedMs = now();
  expect(cancelled).toMatchObject({ state: "running", cancel_requested: true });
  const { answer, atMs } = await waiting;
  expect(answer.leases).toEqual([{ lease_id: lease.lease_id, fence: lease.fence }]);
  expect(atMs - askedMs).toBeLessThan(1000);

  const result = await executor.result(lease);
  result.outcome = { reason: "cancelled", exit_code: null, signal: null, message: null };
  const evidence = await executor.identity.sendEvidence(executor.evidence(lease, result));
  const done = await executor.ok<Task>("POST", `/v1/leases/${lease.lease_id}/complete`, {
    fence: lease.fence,
    result,
    evidence,
  });
  expect(done.state).toBe("cancelled");
  const { items } = await client.ok<{ items: Attestation[] }>("GET", `/v1/tasks/${task.id}/attestations`);
  expect(items).toHaveLength(1);
});

test("a queued task is cancelled at once, a final one stays as it is", async () => {
  const task = await client.submit();
  expect(await client.ok("POST", `/v1/tasks/${task.id}/cancel`)).toMatchObject({ state: "cancelled" });
  expect(await executor.acquire()).toEqual([]);
  const { task: other, lease } = await running();
  await executor.finish(lease, { exitCode: 3 });
  expect(await client.ok("POST", `/v1/tasks/${other.id}/cancel`)).toMatchObject({
    state: "failed",
    cancel_requested: false,
    result: { outcome: { exit_code: 3 } },
  });
});

test("an executor cannot write with a stale fence, with another's lease, or with none (B52)", async () => {
  const { task, lease, path } = await running();
  const other = await gateway.executor();
  const result = await executor.result(lease);
  const evidence = await executor.identity.sendEvidence(executor.evidence(lease, result));
  const digest = await sha256("late");
  const writes: [string, string, (fence: number) => unknown][] = [
    ["POST", `${path}/complete`, (fence) => ({ fence, result, evidence })],
    ["POST", `${path}/fail`, (fence) => ({ fence, message: "x", evidence: null })],
    ["POST", `${path}/fail`, (fence) => ({ fence, message: "x", evidence })],
    ["POST", `${path}/release`, (fence) => ({ fence })],
  ];
  for (const [method, at, body] of writes) {
    expect([at, await executor.refused(method, at, body(lease.fence + 1))]).toMatchObject([
      at,
      { code: "LEASE_FENCED", status: 409 },
    ]);
    expect([at, await other.refused(method, at, body(lease.fence))]).toMatchObject([
      at,
      { code: "LEASE_NOT_FOUND" },
    ]);
    const unknown = at.replace(lease.lease_id, newId("lease"));
    expect(await executor.refused(method, unknown, body(lease.fence))).toMatchObject({
      code: "LEASE_NOT_FOUND",
    });
  }
  const late = await executor.refused("PUT", `${path}/blobs/${digest}?fence=${lease.fence + 1}`, "late");
  expect(late).toMatchObject({ code: "LEASE_FENCED" });
  expect(await gateway.ports.blobs.size(digest)).toBeNull();
  const event = {
    type: "stdout",
    lease_id: lease.lease_id,
    fence: lease.fence + 1,
    offset: 0,
    data: "bGF0ZQ==",
  };
  expect(await executor.ok("POST", "/v1/leases/events", { events: [event] })).toEqual({
    lost: [lease.lease_id],
  });
  const renewal = { leases: [{ lease_id: lease.lease_id, fence: lease.fence + 1 }] };
  expect(await executor.ok("POST", "/v1/leases/renew", renewal)).toMatchObject({
    leases: [{ state: "lost" }],
  });

  expect(await client.ok("GET", `/v1/tasks/${task.id}`)).toMatchObject({ state: "running" });
  await executor.finish(lease);
});

test("an executor cannot write after its lease was given back and granted anew", async () => {
  const { task, lease, path } = await running();
  await executor.ok("POST", `${path}/release`, { fence: lease.fence });
  const [again] = await executor.acquire();
  expect(again).toMatchObject({ task_id: task.id, attempt: 1 });
  expect(again!.fence).toBeGreaterThan(lease.fence);
  const result = await executor.result(again!, { stdout: "second" });
  const stale = await executor.identity.sendEvidence(executor.evidence(lease, result));
  const refused = await executor.refused("POST", `${path}/complete`, {
    fence: lease.fence,
    result,
    evidence: stale,
  });
  expect(refused).toMatchObject({ code: "LEASE_FENCED" });
  await executor.finish(again!, { stdout: "second" });
});

test("a completion whose answer was lost can be sent again; another result for the same lease cannot", async () => {
  const { lease, path } = await running();
  const result = await executor.result(lease, { stdout: "once" });
  const evidence = await executor.identity.sendEvidence(executor.evidence(lease, result));
  const body = { fence: lease.fence, result, evidence };
  const first = await executor.ok<Task>("POST", `${path}/complete`, body);
  const second = await executor.ok<Task>("POST", `${path}/complete`, body);
  expect(second).toEqual(first);
  const { items } = await client.ok<{ items: unknown[] }>("GET", `/v1/tasks/${first.id}/attestations`);
  expect(items).toHaveLength(1);
  const changed: Result = { ...result, outcome: { ...result.outcome, exit_code: 1 } };
  const forged = await executor.identity.sendEvidence(executor.evidence(lease, changed));
  const refused = await executor.refused("POST", `${path}/complete`, {
    fence: lease.fence,
    result: changed,
    evidence: forged,
  });
  expect(refused).toMatchObject({ code: "TASK_ALREADY_FINISHED", status: 409 });
});

test("evidence that was tampered with, or that says something else than the result or the uploads, is refused and changes nothing", async () => {
  const { task, lease, path } = await running({ nonce: "nonce-of-client" });
  const other = await gateway.executor();
  const result = await executor.result(lease, { stdout: "out", files: { "/work/a": "a" } });
  const evidence = executor.evidence(lease, result);
  const good = await executor.identity.sendEvidence(evidence);
  const signed = (change: Partial<Evidence>) => executor.identity.sendEvidence({ ...evidence, ...change });
  const flipped = (index: number) => {
    const parts = good.split(".");
    const bytes = Buffer.from(parts[index]!, "base64url");
    bytes[Math.floor(bytes.length / 2)]! ^= 1;
    parts[index] = bytes.toString("base64url");
    return parts.join(".");
  };
  const elsewhere: Result = {
    ...result,
    outputs: [{ ...result.outputs[0]!, digest: await sha256("never uploaded") }],
  };
  const cases: [string, Result, string][] = [
    ["one bit of the header", result, flipped(0)],
    ["one bit of the payload", result, flipped(1)],
    ["one bit of the signature", result, flipped(2)],
    ["no JWS at all", result, "evidence"],
    ["another executor's signature", result, await other.identity.sendEvidence(evidence)],
    ["another task", result, await signed({ task_id: newId("task") })],
    ["another lease", result, await signed({ lease_id: newId("lease") })],
    ["another fence", result, await signed({ fence: lease.fence + 1 })],
    ["another attempt", result, await signed({ attempt: 2 })],
    ["another spec", result, await signed({ spec_digest: await sha256("spec") })],
    ["another nonce", result, await signed({ nonce: "another-nonce" })],
    ["another result", { ...result, outcome: { ...result.outcome, exit_code: 1 } }, good],
    ["an output that was not uploaded", elsewhere, await signed({ result: elsewhere })],
  ];
  for (const [what, said, jws] of cases) {
    const error = await executor.refused("POST", `${path}/complete`, {
      fence: lease.fence,
      result: said,
      evidence: jws,
    });
    expect([what, error.code]).toEqual([
      what,
      expect.stringMatching(/^(EVIDENCE_(INVALID|MISMATCH)|DIGEST_MISMATCH)$/),
    ]);
    expect([what, error.status]).toEqual([what, 422]);
  }
  expect(await client.ok("GET", `/v1/tasks/${task.id}`)).toMatchObject({
    state: "running",
    attestation_id: null,
  });
  expect(await client.ok("GET", `/v1/tasks/${task.id}/attestations`)).toEqual({ items: [] });
  const done = await executor.ok<Task>("POST", `${path}/complete`, {
    fence: lease.fence,
    result,
    evidence: good,
  });
  expect(done.state).toBe("succeeded");
});

test("an upload is refused when it is not what its address says, and nothing of it stays", async () => {
  const { lease, path } = await running();
  const digest = await sha256("announced");
  const refused = await executor.refused(
    "PUT",
    `${path}/blobs/${digest}?fence=${lease.fence}`,
    "something else",
  );
  expect(refused).toMatchObject({ code: "DIGEST_MISMATCH" });
  expect(await gateway.ports.blobs.size(digest)).toBeNull();
  expect(await executor.refused("PUT", `${path}/blobs/${digest}`, "announced")).toMatchObject({
    code: "INVALID_REQUEST",
  });
  expect(await executor.refused("PUT", `${path}/blobs/sha256:zz?fence=1`, "x")).toMatchObject({
    code: "INVALID_REQUEST",
  });
  await executor.finish(lease);
});

test("an attempt that failed through the system is attested, retried, and in the end dead (B57, B58)", async () => {
  const { task, lease, path } = await running({ retries: 1 });
  const failed: Result = {
    outcome: { reason: "launch_failed", exit_code: null, signal: null, message: "no\0slot" },
    outputs: [],
    stdout: { digest: await sha256(""), kept_bytes: 0, total_bytes: 0 },
    stderr: { digest: await sha256(""), kept_bytes: 0, total_bytes: 0 },
  };
  failed.outcome.message = "no slot";
  const evidence = await executor.identity.sendEvidence({
    ...executor.evidence(lease, failed),
    isolation: null,
  });
  // B56: U+0000 is refused at the edge, before anything could loop on it
  const nul = { fence: lease.fence, message: "no\0slot", evidence };
  expect(await executor.refused("POST", `${path}/fail`, nul)).toMatchObject({ code: "INVALID_REQUEST" });
  const queued = await executor.ok<Task>("POST", `${path}/fail`, { ...nul, message: "no slot" });
  expect(queued).toMatchObject({ state: "queued", attempts: 1 });

  let second: Lease | undefined;
  while (second === undefined) [second] = await executor.acquire(2_000);
  expect(second).toMatchObject({ task_id: task.id, attempt: 2 });
  const body = { fence: second.fence, message: "host is full", evidence: null };
  const dead = await executor.ok<Task>("POST", `/v1/leases/${second.lease_id}/fail`, body);
  expect(dead).toMatchObject({
    state: "dead",
    result: { outcome: { reason: "launch_failed", message: "host is full" } },
  });
  const { items } = await client.ok<{ items: Attestation[] }>("GET", `/v1/tasks/${task.id}/attestations`);
  expect(items.map(({ fence }) => fence)).toEqual([lease.fence]);
});

test("an attempt whose command had ended is dead at once where its record fails, and attested as that", async () => {
  const { task, lease, path } = await running({ retries: 2 });
  const message = "INTERNAL: its trace is gone";
  const result = await executor.result(lease);
  result.outcome = { reason: "record_failed", exit_code: 7, signal: null, message };
  const evidence = await executor.identity.sendEvidence(executor.evidence(lease, result));
  const body = { fence: lease.fence, message, evidence, ended: { exit_code: 7, signal: null } };
  // Whoever says that it ended attests no less.
  expect(await executor.refused("POST", `${path}/fail`, { ...body, ended: null })).toMatchObject({
    code: "EVIDENCE_MISMATCH",
    details: { member: "result.outcome.reason" },
  });
  const dead = await executor.ok<Task>("POST", `${path}/fail`, body);
  expect(dead).toMatchObject({ state: "dead", attempts: 1, result: { outcome: result.outcome } });
  expect(await executor.ok<Task>("POST", `${path}/fail`, body)).toEqual(dead);
  const { items } = await client.ok<{ items: Attestation[] }>("GET", `/v1/tasks/${task.id}/attestations`);
  expect(items).toHaveLength(1);
});

test("evidence of an attempt that ran cannot be reported as a fault of the system, to have it retried", async () => {
  const { lease, path } = await running();
  const result = await executor.result(lease, { exitCode: 1 });
  const evidence = await executor.identity.sendEvidence(executor.evidence(lease, result));
  const body = { fence: lease.fence, message: "pretend", evidence };
  expect(await executor.refused("POST", `${path}/fail`, body)).toMatchObject({ code: "EVIDENCE_MISMATCH" });
  await executor.finish(lease, { exitCode: 1 });
});

test("a draining executor is told so and gets nothing more, while it may finish what it has", async () => {
  const admin = await gateway.client("admin");
  const { lease } = await running();
  expect(await admin.ok("POST", `/v1/executors/${executor.executorId}/drain`)).toMatchObject({
    state: "draining",
  });
  const beat = { capacity: CAPACITY, free: CAPACITY, images: [], running: 1 };
  expect(await executor.ok("POST", "/v1/executors/heartbeat", beat)).toEqual({ draining: true });
  await client.submit();
  const body = { free: CAPACITY, wait_ms: 0 };
  const response = await executor.send("POST", "/v1/leases", body);
  const answer = (await response.json()) as { leases?: unknown[]; error?: { code: string } };
  expect(answer.leases ?? answer.error?.code).toSatisfy(
    (it: unknown) => it === "EXECUTOR_DRAINING" || (it as []).length === 0,
  );
  expect(await executor.finish(lease)).toMatchObject({ state: "succeeded" });
  expect(await admin.refused("POST", `/v1/executors/${newId("executor")}/drain`)).toMatchObject({
    code: "EXECUTOR_NOT_FOUND",
  });
});
