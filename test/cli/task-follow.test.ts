import { expect, test } from "vitest";
import { followTask } from "#cli/task-follow.ts";
import { DsecError } from "#core/errors.ts";
import { startGateway } from "#gateway/node/server.ts";
import { createClient } from "#sdk/client.ts";
import { ISSUER, openTestGateway } from "#test/gateway/gateway-under-test.ts";
import { dsec } from "./dsec.ts";

test("a task is not waited for once nothing runs tasks any more", async () => {
  const gateway = await openTestGateway();
  try {
    // It could take the task, and does not.
    await gateway.executor();
    const { secret } = await gateway.client("tasks");
    const client = createClient({
      gateway: ISSUER,
      apiKey: secret,
      fetch: async (request) => gateway.app.fetch(request),
    });
    const served = Promise.withResolvers<void>();
    const lost = new DsecError("LAUNCHER_LOST", "the launcher was lost and did not start again");
    const following = followTask(client, { command: ["true"] }, { served: served.promise, json: true }, () =>
      served.reject(lost),
    );
    await expect(following).rejects.toBe(lost);
  } finally {
    await gateway.close();
  }
});

test("logs --no-follow waits for no task: one that runs is refused, and one that ended with no result is not", async () => {
  const gateway = await openTestGateway();
  const server = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
  try {
    const client = await gateway.client("tasks");
    const { id } = await client.submit();
    const env = { DSEC_GATEWAY: server.url, DSEC_API_KEY: client.secret };
    const waiting = await dsec(["task", "logs", id, "--no-follow"], { env });
    expect([waiting.code, waiting.stderr]).toEqual([1, expect.stringMatching(/OUTPUT_NOT_FOUND: .* queued/)]);
    await client.ok("POST", `/v1/tasks/${id}/cancel`);
    const over = await dsec(["task", "logs", id, "--no-follow"], { env });
    expect([over.code, over.stdout.toString(), over.stderr]).toEqual([0, "", ""]);
  } finally {
    await server.close();
    await gateway.close();
  }
});

test("a command that follows a queued task says after a moment why it waits, and again where that changes", async () => {
  const gateway = await openTestGateway();
  const server = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
  try {
    const client = await gateway.client("tasks");
    const env = { DSEC_GATEWAY: server.url, DSEC_API_KEY: client.secret };
    const said: string[] = [];
    const run = dsec(["run", "--cpu", "2", "--", "true"], { env, onStderr: (text) => said.push(text) });
    await expect
      .poll(() => said.join(""))
      .toMatch(/^dsec: task_\w+ waits: no executor is connected; start one: dsec executor/);
    const executor = await gateway.executor();
    const task = /task_\w+/.exec(said.join(""))![0];
    await expect.poll(() => said.join("")).toMatch(/waits: an executor has room for it/);
    const shown = await dsec(["task", "get", task], { env });
    expect(shown.stdout.toString()).toMatch(/^waits +an executor has room for it/m);
    const quiet = dsec(["run", "-q", "--priority", "-1", "--", "true"], { env });
    const [lease] = await executor.acquire(20_000);
    expect(lease!.task_id).toBe(task);
    await executor.start(lease!);
    await executor.finish(lease!);
    expect((await run).code).toBe(0);
    const [other] = await executor.acquire(20_000);
    await executor.start(other!);
    await executor.finish(other!);
    expect(await quiet).toMatchObject({ code: 0, stderr: "" });
  } finally {
    await server.close();
    await gateway.close();
  }
});
