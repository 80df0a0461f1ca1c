/** `wrangler dev` serves the same flow: a gateway in workerd over PostgreSQL, and an executor on Node. */
import { createLocalJWKSet, jwtVerify } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "#sdk/client.ts";
import { decodeData } from "#sdk/task-events.ts";
import { leftovers, type System, startEdgeSystem } from "./system.ts";

let system: System;
let client: Client;
beforeAll(async () => {
  system = await startEdgeSystem();
  client = createClient({ gateway: system.url, apiKey: system.adminKey });
});
afterAll(async () => {
  await system?.stop();
  expect(await leftovers(system.folder)).toEqual([]);
});

test("a task runs in a sandbox, streams live, and comes back with an attestation that a stranger verifies", async () => {
  const input = await client.artifacts.put(new TextEncoder().encode("workerd"));
  const task = await client.tasks.submit({
    command: [
      "sh",
      "-c",
      'read -r name </input/name || :; echo "hello $name"; echo "$name" | tr a-z A-Z > out.txt',
    ],
    inputs: [{ artifact: input.artifact, mount_path: "/input/name" }],
    outputs: ["*.txt"],
    nonce: "chosen by the client",
  });
  let said = "";
  for await (const event of client.tasks.events(task.id)) {
    if (event.type === "stdout") said += new TextDecoder().decode(decodeData(event));
  }
  expect(said).toBe("hello workerd\n");

  const final = await client.tasks.get(task.id);
  expect(final).toMatchObject({
    state: "succeeded",
    result: { outcome: { reason: "exited", exit_code: 0 } },
  });
  const [output] = final.result!.outputs;
  expect(new TextDecoder().decode(await client.tasks.output(task.id, output!))).toBe("WORKERD\n");

  const [attestation] = await client.tasks.attestations(task.id);
  const keys = createLocalJWKSet((await client.jwks()) as Parameters<typeof createLocalJWKSet>[0]);
  const { payload } = await jwtVerify(attestation!.jwt, keys, {
    issuer: system.issuer,
    typ: "dsec-attestation+jwt",
  });
  expect(payload).toMatchObject({ sub: task.id, eat_nonce: "chosen by the client" });
});

test("cancelling reaches a running task, and its attempt is attested as cancelled", async () => {
  const task = await client.tasks.submit({ command: ["sh", "-c", "echo started; sleep 600"] });
  for await (const event of client.tasks.events(task.id)) {
    if (event.type === "stdout") await client.tasks.cancel(task.id);
  }
  const final = await client.tasks.get(task.id);
  expect(final).toMatchObject({ state: "cancelled", result: { outcome: { reason: "cancelled" } } });
  expect((await client.tasks.attestations(task.id)).map(({ id }) => id)).toEqual([final.attestation_id]);
});
