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
