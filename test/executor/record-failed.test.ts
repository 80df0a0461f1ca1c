/** Where a record of ours is the fault, a command that has ended is not run again, and its task says what was wrong. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { sha256 } from "#core/json.ts";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import { FRAME, type ReceiptClaims } from "#core/wire/calls.ts";
import type { PolicyRequest } from "#core/wire/policy.ts";
import { signReceipt } from "#gateway/signing/receipt.ts";
import { eventually, Rig } from "#test/executor/executor-under-test.ts";
import { claimsOf, openTestProxy, reach, type TestProxy } from "#test/gateway/proxy/proxy-under-test.ts";

let proxy: TestProxy;
let rig: Rig;
let url: string;
let port: number;
let made = 0;
beforeAll(async () => {
  proxy = await openTestProxy();
  ({ url, port } = await proxy.serve((_request, response) => {
    made++;
    response.end("here");
  }));
});
afterAll(() => proxy?.close());
beforeEach(async () => {
  made = 0;
  rig = await Rig.open(proxy.gateway);
});
afterEach(() => rig[Symbol.asyncDispose]());

/** Makes a call, and ends with this exit code once it is told to. */
async function called(exitCode: number, policy: Partial<PolicyRequest> = {}): Promise<string> {
  const script = `dsec-tool api-call --url ${url}/ > /dev/null; echo begun
    until dsec-tool observe --wait 20000 | grep -q end; do :; done; exit ${exitCode}`;
  const { id } = await rig.submit({ command: ["sh", "-c", script], policy: reach(port, policy), retries: 2 });
  await rig.begun(id);
  return id;
}

/** Once it is kept, which the call's own answer does not wait for. */
async function receiptOf(id: string): Promise<string> {
  let jwt: string | undefined;
  await eventually(async () => {
    const rows = await proxy.gateway.sql.query<{ jwt: string }>(
      "select jwt from receipts where task_id = $1",
      [id],
    );
    jwt = rows[0]?.jwt;
    return jwt !== undefined;
  });
  return jwt!;
}

const tell = (id: string) => rig.client.ok("POST", `/v1/tasks/${id}/observations`, { content: "end" });

test.each([0, 3])(
  "a command that exited with %i and whose evidence is refused has run once",
  async (exitCode) => {
    await rig.start();
    const id = await called(exitCode);
    await receiptOf(id);
    for (const table of ["receipts", "calls"])
      await proxy.gateway.sql.query(`delete from ${table} where task_id = $1`, [id]);
    await tell(id);
    const { task } = await rig.finished(id);
    expect(task).toMatchObject({ state: "dead", attempts: 1 });
    const { outcome } = task.result!;
    expect(outcome).toMatchObject({ reason: "record_failed", exit_code: exitCode, signal: null });
    expect(outcome.message).toMatch(
      new RegExp(
        `^EVIDENCE_MISMATCH: the gateway refused the result of lease_\\w+: .* task ${id}: calls.count is 1, expected 0$`,
      ),
    );
    expect(made).toBe(1);
  },
);

test("a command whose trace is gone before it is delivered has run once", async () => {
  await rig.start({
    onEvent({ type }) {
      if (type === "ended") rmSync(join(rig.directory, "data/traces"), { recursive: true });
    },
  });
  const id = await called(0);
  await tell(id);
  const { task } = await rig.finished(id);
  expect(task).toMatchObject({ state: "dead", attempts: 1 });
  expect(task.result!.outcome).toMatchObject({ reason: "record_failed", exit_code: 0 });
  expect(task.result!.outcome.message).toMatch(
    new RegExp(`^INTERNAL: lease_\\w+ of ${id}: .*\\.trace cannot be read any more$`),
  );
  expect(made).toBe(1);
});

test("a receipt of a form that the executor does not know costs nothing", async () => {
  await rig.start({
    fetch: async (request) => {
      const response = await rig.fetch(request);
      if (!new URL(request.url).pathname.endsWith("/proxy")) return response;
      return new Response(withoutReceipt(new Uint8Array(await response.arrayBuffer())), response);
    },
  });
  const id = await called(0);
  const claims = {
    ...claimsOf<ReceiptClaims>(await receiptOf(id)),
    status: 12_345,
    of_a_later_version: true,
  };
  const { jwt, leaf } = await signReceipt(claims, proxy.gateway.ports.keys, sha256);
  await proxy.gateway.sql.query("update receipts set jwt = $2, leaf = $3 where task_id = $1", [
    id,
    jwt,
    leaf,
  ]);
  await tell(id);
  const { task, attestations } = await rig.finished(id);
  expect([task.state, task.attempts, task.result!.outcome.message]).toEqual(["succeeded", 1, null]);
  expect(attestations).toHaveLength(1);
  expect(made).toBe(1);
});

test("a receipt that could not be kept costs no more than the time of its call", async () => {
  const { sql } = proxy.gateway;
  await rig.start();
  await sql.query("alter table receipts add constraint away check (false) not valid", []);
  let id: string;
  try {
    id = await called(0, { timeout_ms_max: 5_000 });
    await eventually(() => proxy.gateway.logged.some(({ level }) => level === "error"));
  } finally {
    await sql.query("alter table receipts drop constraint away", []);
  }
  await tell(id);
  const { task, attestations } = await rig.finished(id);
  expect([task.state, task.attempts, task.result!.outcome.message]).toEqual(["succeeded", 1, null]);
  expect(claimsOf<AttestationClaims>(attestations[0]!.jwt).dsec.calls).toEqual({
    count: 0,
    receipts_root: null,
  });
  expect(made).toBe(1);
});

/** An answer that breaks off before its last frame. */
function withoutReceipt(frames: Uint8Array): Uint8Array<ArrayBuffer> {
  const view = Buffer.from(frames);
  for (let at = 0; at < view.length; at += 5 + view.readUInt32BE(at + 1)) {
    if (view[at] === FRAME.receipt) return Uint8Array.from(view.subarray(0, at));
  }
  return Uint8Array.from(view);
}
