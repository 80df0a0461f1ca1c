import { expect, test } from "vitest";
import { followTask } from "#cli/task-follow.ts";
import { DsecError } from "#core/errors.ts";
import { createClient } from "#sdk/client.ts";
import { ISSUER, openTestGateway } from "#test/gateway/gateway-under-test.ts";

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
