import { createLocalJWKSet, jwtVerify } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Attestation } from "#core/wire/attestations.ts";
import type { Task } from "#core/wire/tasks.ts";
import { ISSUER, openTestGateway, readEvents, type TestGateway } from "../gateway-under-test.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

test("a task goes from submission to an output and an attestation that the JWKS alone verifies", async () => {
  const client = await gateway.client("tasks");
  const executor = await gateway.executor();
  const artifact = await client.upload("input");
  const task = await client.submit({
    command: ["sh", "-c", "cat /input > out.json"],
    inputs: [{ artifact, mount_path: "/input" }],
    outputs: ["out.json"],
    nonce: "nonce-12345",
  });
  expect(task.state).toBe("queued");

  const [lease] = await executor.acquire();
  expect(lease).toMatchObject({ task_id: task.id, attempt: 1, spec_digest: task.spec_digest });
  expect(await (await executor.send("GET", `/v1/artifacts/${artifact}`)).text()).toBe("input");
  await executor.start(lease!);
  await executor.print(lease!, "hello\n");
  const final = await executor.finish(lease!, {
    stdout: "hello\n",
    files: { "/work/out.json": '{"score":1}' },
  });
  expect(final).toMatchObject({ id: task.id, state: "succeeded" });

  const seen = await client.ok<Task>("GET", `/v1/tasks/${task.id}`);
  expect(seen.attestation_id).not.toBeNull();
  const { items: outputs } = await client.ok<{ items: { path: string }[] }>(
    "GET",
    `/v1/tasks/${task.id}/outputs`,
  );
  expect(outputs.map(({ path }) => path)).toEqual(["/work/out.json"]);
  const content = await client.send("GET", `/v1/tasks/${task.id}/outputs/content?path=%2Fwork%2Fout.json`);
  expect(await content.text()).toBe('{"score":1}');
  expect(await (await client.send("GET", `/v1/tasks/${task.id}/stdout`)).text()).toBe("hello\n");
  expect(await (await client.send("GET", `/v1/tasks/${task.id}/stderr`)).text()).toBe("");

  const { items } = await client.ok<{ items: Attestation[] }>("GET", `/v1/tasks/${task.id}/attestations`);
  const jwks = await (await gateway.fetch("/.well-known/jwks.json")).json();
  const { payload } = await jwtVerify(items[0]!.jwt, createLocalJWKSet(jwks), { issuer: ISSUER });
  expect(payload).toMatchObject({ sub: task.id, eat_nonce: "nonce-12345", jti: seen.attestation_id });
  const verified = await gateway.fetch("/v1/attestations/verify", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jwt: items[0]!.jwt, nonce: "nonce-12345" }),
  });
  expect(await verified.json()).toMatchObject({ valid: true, claims: { sub: task.id } });

  const events = await readEvents(await client.send("GET", `/v1/tasks/${task.id}/events`));
  expect(events.map(({ event }) => event)).toEqual(["state", "state", "state", "stdout", "state"]);
  expect(gateway.logged.filter(({ level }) => level === "error")).toEqual([]);
});
