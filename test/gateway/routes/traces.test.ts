/** What executors send of running attempts, and who is given it. */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { Task } from "#core/wire/tasks.ts";
import {
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

async function running(retries = 0): Promise<{ task: Task; lease: Lease }> {
  const task = await client.submit({ retries });
  const [lease] = await executor.acquire();
  await executor.start(lease!);
  return { task, lease: lease! };
}

const BYTES = { headers: { "content-type": "application/octet-stream" } };
const partPath = (lease: Lease, offset: number, fence = lease.fence) =>
  `/v1/leases/${lease.lease_id}/trace?fence=${fence}&offset=${offset}`;
const sendPart = (lease: Lease, offset: number, text: string) =>
  executor.ok<{ size: number }>("POST", partPath(lease, offset), new TextEncoder().encode(text), BYTES);
const refusedPart = (by: Client, lease: Lease, offset: number, text: string, fence?: number) =>
  by.refused("POST", partPath(lease, offset, fence), new TextEncoder().encode(text), BYTES);

/** The text of a stream as it comes, until `enough`. */
async function readUntil(response: Response, enough: (text: string) => boolean): Promise<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!enough(text)) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
  }
  await reader.cancel();
  return text;
}

test("parts make one file, whatever is repeated, and a gap is told with how far it is known", async () => {
  const { task, lease } = await running();
  expect(await sendPart(lease, 0, "abc")).toEqual({ size: 3 });
  expect(await sendPart(lease, 3, "defg")).toEqual({ size: 7 });
  // Its answer was lost, so it comes again.
  expect(await sendPart(lease, 3, "defg")).toEqual({ size: 7 });
  expect(await sendPart(lease, 0, "abc")).toEqual({ size: 7 });
  const gap = await refusedPart(executor, lease, 9, "later");
  expect(gap).toMatchObject({ code: "TRACE_GAP", status: 409, details: { size: 7 } });
  expect(await refusedPart(executor, lease, 5, "fgh")).toMatchObject({
    code: "TRACE_GAP",
    details: { size: 7 },
  });
  expect(await refusedPart(executor, lease, 7, "")).toMatchObject({ code: "INVALID_REQUEST" });
  const tooLarge = "x".repeat(LIMITS.trajectoryPartBytes + 1);
  expect(await refusedPart(executor, lease, 7, tooLarge)).toMatchObject({ code: "BODY_TOO_LARGE" });

  const answer = await client.send("GET", `/v1/tasks/${task.id}/trace`);
  expect([answer.headers.get("dsec-attempt"), answer.headers.get("dsec-trace")]).toEqual(["1", "open"]);
  expect(answer.headers.get("content-length")).toBe("7");
  expect(await answer.text()).toBe("abcdefg");
  expect(await (await client.send("GET", `/v1/tasks/${task.id}/trace?offset=4`)).text()).toBe("efg");
  const stranger = await gateway.client("tasks");
  for (const query of ["", "?follow=true"])
    expect(await stranger.refused("GET", `/v1/tasks/${task.id}/trace${query}`)).toMatchObject({
      code: "TASK_NOT_FOUND",
    });
  await executor.finish(lease, {});
});

test("short and long parts, which are kept in different places, make one file from whatever byte on", async () => {
  const { task, lease } = await running();
  const long = "0123456789".repeat(LIMITS.trajectoryRowBytes / 8);
  const whole = `ab${long}cd`;
  await sendPart(lease, 0, "ab");
  await sendPart(lease, 2, long);
  expect(await sendPart(lease, 2 + long.length, "cd")).toEqual({ size: whole.length });
  for (const offset of [0, 1, 2, 7, whole.length - 3, whole.length - 1]) {
    const answer = await client.send("GET", `/v1/tasks/${task.id}/trace?offset=${offset}`);
    expect(await answer.text()).toBe(whole.slice(offset));
  }
  const stranger = await gateway.executor();
  for (const text of ["short", long]) {
    expect((await refusedPart(stranger, lease, whole.length, text)).code).toBe("LEASE_NOT_FOUND");
  }
  await executor.finish(lease, {});
});

test("who follows is sent each part as it comes, from where it left off, and the end when the attempt ends", async () => {
  const { task, lease } = await running();
  const path = `/v1/tasks/${task.id}/trace?follow=true`;
  const following = client.send("GET", path);
  const late = (async () => readUntil(await following, () => false))();
  await sendPart(lease, 0, "first ");
  const resumed = await client.send("GET", `${path}&offset=2`);
  const enough = readUntil(resumed, (text) => text.endsWith("second "));
  await sendPart(lease, 6, "second ");
  expect(await enough).toBe("rst second ");
  await sendPart(lease, 13, "third");
  await executor.finish(lease, {});
  expect(await late).toBe("first second third");
  expect((await following).headers.get("dsec-attempt")).toBe("1");
  const over = await client.send("GET", `${path}&attempt=1&offset=18`);
  expect([over.status, await over.text()]).toEqual([204, ""]);
});

test("who follows a task that waits is sent its first attempt", async () => {
  const task = await client.submit();
  const all = client.send("GET", `/v1/tasks/${task.id}/trace?follow=true`).then((r) => r.text());
  const [lease] = await executor.acquire();
  await executor.start(lease!);
  await sendPart(lease!, 0, "from its begin");
  await executor.finish(lease!, {});
  expect(await all).toBe("from its begin");
});

test("an executor whose lease is another's can send nothing, and the one that has it reads what came before", async () => {
  const { task, lease } = await running(2);
  await sendPart(lease, 0, "done by the first");
  await gateway.ports.store.failLease(
    executor.executorId as never,
    { lease_id: lease.lease_id, fence: lease.fence },
    { reason: "launch_failed", exit_code: null, signal: null, message: "lost" },
    null,
  );
  const other = await gateway.executor();
  let next: Lease | undefined;
  while (next === undefined) [next] = await other.acquire(2_000);
  expect([next.task_id, next.attempt]).toEqual([task.id, 2]);
  const late = await refusedPart(executor, lease, 17, "!");
  expect(late.code).toMatch(/^LEASE_/);
  expect((await refusedPart(executor, next, 0, "!")).code).toMatch(/^LEASE_/);

  const path = `/v1/leases/${next.lease_id}/trace?fence=${next.fence}`;
  const answer = await other.send("GET", path);
  expect([answer.headers.get("dsec-attempt"), await answer.text()]).toEqual(["1", "done by the first"]);
  expect(await (await other.send("GET", `${path}&attempt=1&offset=8`)).text()).toBe("the first");
  expect(await other.refused("GET", `${path}&attempt=2`)).toMatchObject({ code: "OUTPUT_NOT_FOUND" });
  expect(await (await other.send("GET", `${path}&before=${next.fence}`)).text()).toBe("done by the first");
  expect(await other.refused("GET", `${path}&before=${lease.fence}`)).toMatchObject({
    code: "OUTPUT_NOT_FOUND",
  });
  expect((await executor.refused("GET", path)).code).toMatch(/^LEASE_/);
  expect(
    (await other.refused("GET", `/v1/leases/${next.lease_id}/trace?fence=${next.fence + 1}`)).code,
  ).toMatch(/^LEASE_/);

  const parts = "of the second";
  await other.ok("POST", partPath(next, 0), new TextEncoder().encode(parts), BYTES);
  expect(await (await client.send("GET", `/v1/tasks/${task.id}/trace`)).text()).toBe(parts);
  expect(await (await client.send("GET", `/v1/tasks/${task.id}/trace?attempt=1`)).text()).toBe(
    "done by the first",
  );
  const absent = await client.refused("GET", `/v1/tasks/${task.id}/trace?attempt=7`);
  expect(absent).toMatchObject({ code: "OUTPUT_NOT_FOUND", status: 404 });
  expect(absent.message).toContain("there are those of 2, 1");
  await other.finish(next, {});
});

test("once an attempt is attested its trace is the sealed file, by the digest that is attested", async () => {
  const { task, lease } = await running();
  await sendPart(lease, 0, "live");
  await executor.finish(lease, { stdout: "sealed" });
  const answer = await client.send("GET", `/v1/tasks/${task.id}/trace`);
  const text = await answer.text();
  const [attestation] = (
    await client.ok<{ items: { jwt: string }[] }>("GET", `/v1/tasks/${task.id}/attestations`)
  ).items;
  const claims = JSON.parse(Buffer.from(attestation!.jwt.split(".")[1]!, "base64url").toString());
  expect(`sha256:${createHash("sha256").update(text).digest("hex")}`).toBe(claims.dsec.trace.digest);
  expect(answer.headers.get("dsec-trace")).toBe("sealed");
  // What was sent live is still there for who was following.
  expect(await (await client.send("GET", `/v1/tasks/${task.id}/trace?follow=true`)).text()).toBe("live");
});
