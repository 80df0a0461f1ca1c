import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ExecutorId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { sharedPath } from "#test/support/shared.ts";
import { type Client, openTestGateway, type TestGateway } from "../gateway-under-test.ts";

let gateway: TestGateway;
let client: Client;
beforeAll(async () => {
  gateway = await openTestGateway();
  client = await gateway.client("tasks");
});
afterAll(() => gateway.close());

async function count(): Promise<number> {
  const counts = await gateway.store.countTasks();
  return Object.values(counts).reduce((sum, n) => sum + n, 0);
}

type Issues = { issues: { path: string; message: string }[] };

test("a misspelt, misplaced or unknown member is refused with its path and the name that was meant (B75)", async () => {
  const before = await count();
  for (const [body, path, meant] of [
    [{ comand: ["true"] }, "comand", "command"],
    [{ command: ["true"], timeoutMs: 1000 }, "timeoutMs", "timeout_ms"],
    [{ command: ["true"], resources: { memoryMb: 512 } }, "resources.memoryMb", "memory_mb"],
    [{ command: ["true"], resources: { cpu: 1 } }, "resources.cpu", undefined],
    [{ command: ["true"], inputs: [{ artefact: "x", mount_path: "/a" }] }, "inputs[0].artefact", "artifact"],
    [{ command: ["true"], memory_mb: 512 }, "memory_mb", "memory"],
    [{ command: ["true"], __proto__: null, constructor: {} }, "constructor", undefined],
  ] as [object, string, string | undefined][]) {
    const error = await client.refused("POST", "/v1/tasks", body);
    expect(error).toMatchObject({ code: "INVALID_REQUEST", status: 400 });
    const issue = (error.details as Issues).issues.find((one) => one.path === path);
    expect([path, issue?.message]).toEqual([
      path,
      expect.stringContaining(meant ? `did you mean ${meant}?` : "known members:"),
    ]);
  }
  expect(await client.refused("POST", "/v1/tasks", '{"command":["true"],"__proto__":{"a":1}}')).toMatchObject(
    {
      code: "INVALID_REQUEST",
    },
  );
  expect(await count()).toBe(before);
});

test("a member of the wrong type or out of its bounds is refused with its path", async () => {
  const before = await count();
  for (const [body, path] of [
    [{ command: "true" }, "command"],
    [{ command: [] }, "command"],
    [{ command: ["a", 1] }, "command[1]"],
    [{ command: ["a\0b"] }, "command[0]"],
    [{ command: ["x".repeat(LIMITS.argumentBytes + 1)] }, "command[0]"],
    [{ command: ["é".repeat(LIMITS.argumentBytes / 2 + 1)] }, "command[0]"],
    [{ command: ["true"], timeout_ms: "30" }, "timeout_ms"],
    [{ command: ["true"], timeout_ms: 0 }, "timeout_ms"],
    [{ command: ["true"], timeout_ms: 1.5 }, "timeout_ms"],
    [{ command: ["true"], timeout_ms: 1e20 }, "timeout_ms"],
    [{ command: ["true"], resources: { memory_mb: "512mb" } }, "resources.memory_mb"],
    [{ command: ["true"], resources: { cpu_cores: 0.0001 } }, "resources.cpu_cores"],
    [{ command: ["true"], resources: { cpu_cores: -1 } }, "resources.cpu_cores"],
    [{ command: ["true"], env: { "A=B": "x" } }, "env.A=B"],
    [{ command: ["true"], env: [] }, "env"],
    [{ command: ["true"], image: "../../etc" }, "image"],
    [{ command: ["true"], image: "sha256:abc" }, "image"],
    [{ command: ["true"], inputs: [{ artifact: "sha256:0", mount_path: "/a" }] }, "inputs[0].artifact"],
    [
      { command: ["true"], inputs: [{ artifact: `sha256:${"0".repeat(64)}`, mount_path: "/proc/x" }] },
      "inputs[0].mount_path",
    ],
    [
      { command: ["true"], inputs: [{ artifact: `sha256:${"0".repeat(64)}`, mount_path: "/a/../b" }] },
      "inputs[0].mount_path",
    ],
    [{ command: ["true"], outputs: ["../x"] }, "outputs[0]"],
    [{ command: ["true"], outputs: ["out", "{a,b}".repeat(200)] }, "outputs[1]"],
    [{ command: ["true"], priority: 101 }, "priority"],
    [{ command: ["true"], retries: -1 }, "retries"],
    [{ command: ["true"], labels: { "a b": "c" } }, "labels.a b"],
    [{ command: ["true"], nonce: "short" }, "nonce"],
    [[], ""],
    ["null", ""],
    ['"text"', ""],
  ] as [object | string, string][]) {
    const error = await client.refused("POST", "/v1/tasks", body);
    expect([path, error]).toMatchObject([path, { code: "INVALID_REQUEST", status: 400 }]);
    expect((error.details as Issues).issues.map((issue) => issue.path)).toContain(path);
  }
  expect(await count()).toBe(before);
});

test("output patterns whose braces multiply too far together are refused, naming the one that is too many", async () => {
  const outputs = ["a", "b", "c"].map((name) => name + "{0,1,2,3,4,5,6,7}".repeat(3));
  const error = await client.refused("POST", "/v1/tasks", { command: ["true"], outputs });
  const message = expect.stringMatching(/^"c\{0,1.* 1024 alternatives .*wildcard/);
  expect(error).toMatchObject({ status: 400, details: { issues: [{ path: "outputs[2]", message }] } });
  await client.ok("POST", "/v1/tasks", { command: ["true"], outputs: outputs.slice(1) });
});

const vectors = sharedPath("data/vectors/json-parsing");
if (vectors !== null) {
  // JSONTestSuite: n_ must be refused, y_ accepted, i_ is the implementation's choice.
  const names = readdirSync(vectors).filter((name) => name.endsWith(".json"));
  // Ours to refuse although RFC 8259 leaves it open: two readers may see two different requests.
  const REPEATED = new Set(["y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"]);

  test("every body that is not JSON is refused as such, and none that is JSON", async () => {
    expect(names.length).toBeGreaterThan(300);
    const before = await count();
    for (const name of names) {
      const bytes = new Uint8Array(readFileSync(join(vectors, name)));
      const { code } = await client.refused("POST", "/v1/tasks", bytes, {
        headers: { "content-type": "application/json" },
      });
      if (name.startsWith("n_") || REPEATED.has(name)) expect([name, code]).toEqual([name, "MALFORMED_JSON"]);
      // JSON, but no task: judged as a request, not as JSON
      else if (name.startsWith("y_")) expect([name, code]).toEqual([name, "INVALID_REQUEST"]);
      else expect([name, ["MALFORMED_JSON", "INVALID_REQUEST"].includes(code)]).toEqual([name, true]);
    }
    expect(await count()).toBe(before);
  });
}

test("a member that is given twice is refused rather than one of its values chosen", async () => {
  const body = '{"command":["true"],"timeout_ms":1000,"timeout_ms":100000}';
  const error = await client.refused("POST", "/v1/tasks", body);
  expect(error).toMatchObject({ code: "MALFORMED_JSON" });
  expect(error.message).toContain("timeout_ms");
});

test("only JSON is taken as JSON", async () => {
  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/json; charset=latin1",
    "",
  ]) {
    const response = await client.send("POST", "/v1/tasks", '{"command":["true"]}', {
      headers: { "content-type": type },
    });
    expect([type, response.status]).toEqual([type, 415]);
  }
  for (const type of [
    "application/json",
    "application/json; charset=utf-8",
    'Application/JSON;charset="UTF-8"',
  ]) {
    const response = await client.send("POST", "/v1/tasks", '{"command":["true"]}', {
      headers: { "content-type": type },
    });
    expect([type, response.status]).toEqual([type, 201]);
  }
  const headers = { "content-encoding": "gzip" };
  expect(await client.refused("POST", "/v1/tasks", "{}", { headers })).toMatchObject({
    code: "UNSUPPORTED_MEDIA_TYPE",
  });
});

test("a body beyond the bound is refused, whether or not it says how long it is, and not read to its end", async () => {
  const huge = JSON.stringify({ command: ["x".repeat(LIMITS.requestBodyBytes)] });
  expect(await client.refused("POST", "/v1/tasks", huge)).toMatchObject({
    code: "BODY_TOO_LARGE",
    status: 413,
  });
  const headers = {
    "content-length": String(LIMITS.requestBodyBytes + 1),
    "content-type": "application/json",
  };
  expect(await client.refused("POST", "/v1/tasks", "{}", { headers })).toMatchObject({
    code: "BODY_TOO_LARGE",
  });

  let pulled = 0;
  let cancelled = false;
  const endless = new ReadableStream({
    pull(controller) {
      pulled += 65_536;
      controller.enqueue(new Uint8Array(65_536).fill(0x20));
    },
    cancel() {
      cancelled = true;
    },
  });
  const response = await client.send("POST", "/v1/tasks", undefined, {
    body: endless,
    duplex: "half",
    headers: { "content-type": "application/json" },
  } as RequestInit);
  expect(response.status).toBe(413);
  expect(cancelled).toBe(true);
  expect(pulled).toBeLessThan(LIMITS.requestBodyBytes + 4 * 65_536);
});

test("nesting beyond the bound is refused before anything recurses", async () => {
  const body = `{"command":["true"],"labels":${"[".repeat(100_000)}${"]".repeat(100_000)}}`;
  expect(await client.refused("POST", "/v1/tasks", body)).toMatchObject({ code: "MALFORMED_JSON" });
});

test("an Idempotency-Key makes one task of many sendings, and is refused for another task", async () => {
  const init = { headers: { "idempotency-key": "order-1" } };
  const first = await client.send("POST", "/v1/tasks", { command: ["true"], labels: { n: "1" } }, init);
  expect(first.status).toBe(201);
  const task = (await first.json()) as { id: string };
  expect(first.headers.get("location")).toBe(`/v1/tasks/${task.id}`);
  // another spelling of the same spec: order, and a default written out
  const again = await client.send(
    "POST",
    "/v1/tasks",
    { labels: { n: "1" }, image: "host", command: ["true"] },
    init,
  );
  expect(again.status).toBe(200);
  expect(await again.json()).toMatchObject({ id: task.id });
  expect(await client.refused("POST", "/v1/tasks", { command: ["false"] }, init)).toMatchObject({
    code: "IDEMPOTENCY_KEY_REUSED",
    status: 422,
  });
  // another client's key of the same name is another key
  const other = await gateway.client("tasks");
  expect((await other.submit({ labels: { n: "1" } }, init)).id).not.toBe(task.id);

  const many = await Promise.all(
    Array.from({ length: 10 }, () => client.submit({}, { headers: { "idempotency-key": "at-once" } })),
  );
  expect(new Set(many.map(({ id }) => id)).size).toBe(1);
  for (const key of ["", "a b", "x".repeat(LIMITS.idempotencyKeyChars + 1)]) {
    const response = await client.send(
      "POST",
      "/v1/tasks",
      { command: ["true"] },
      { headers: { "idempotency-key": key } },
    );
    expect([key, response.status]).toEqual([key, 400]);
  }
});

test("an input that the key neither uploaded nor got as an output is refused by name", async () => {
  const stranger = await gateway.client("tasks");
  const artifact = await stranger.upload("not yours");
  const inputs = [{ artifact, mount_path: "/in" }];
  const error = await client.refused("POST", "/v1/tasks", { command: ["true"], inputs });
  expect(error).toMatchObject({ code: "ARTIFACT_NOT_FOUND", details: { artifacts: [artifact] } });
  expect(error.message).toContain(artifact);
  expect((await stranger.submit({ inputs })).state).toBe("queued");
});

test("while no executor is registered a task of any size and image waits for one", async () => {
  expect(await gateway.store.capacities()).toEqual([]);
  const task = await client.submit({ image: "python:3.11", resources: { gpu_memory_mb: 80_000 } });
  expect(task.state).toBe("queued");
});

test("what no executor could ever satisfy is refused with the axis, what was asked and the most there is", async () => {
  await gateway.executor({ memory_mb: 1000, cpu_cores: 64 }, ["python:3.11"]);
  await gateway.executor({ memory_mb: 64_000, cpu_cores: 2 });
  for (const [resources, code, details] of [
    [{ gpu_memory_mb: 1 }, "INSUFFICIENT_GPU_MEMORY", { axis: "gpu_memory_mb", asked: 1, largest: 0 }],
    [{ memory_mb: 64_001 }, "INSUFFICIENT_MEMORY", { axis: "memory_mb", asked: 64_001, largest: 64_000 }],
    [{ cpu_cores: 64.001 }, "INSUFFICIENT_CPU", { axis: "cpu_cores", asked: 64.001, largest: 64 }],
    [{ disk_iops: 1001 }, "INSUFFICIENT_DISK_IOPS", { axis: "disk_iops", asked: 1001, largest: 1000 }],
    [{ network_mbps: 101 }, "INSUFFICIENT_NETWORK", { axis: "network_mbps", asked: 101, largest: 100 }],
    [{ pids: 4097 }, "INSUFFICIENT_PIDS", { axis: "pids", asked: 4097, largest: 4096 }],
    [{ disk_mb: 100_001 }, "INSUFFICIENT_DISK", { axis: "disk_mb", asked: 100_001, largest: 100_000 }],
  ] as [object, string, object][]) {
    const error = await client.refused("POST", "/v1/tasks", { command: ["true"], resources });
    expect(error).toMatchObject({ code, status: 422, details });
    expect(error.message).toContain(String((details as { asked: number }).asked));
  }
  // each axis fits somewhere, but no executor has both
  const both = { command: ["true"], resources: { memory_mb: 2000, cpu_cores: 3 } };
  expect((await client.refused("POST", "/v1/tasks", both)).code).toMatch(/^INSUFFICIENT_(CPU|MEMORY)$/);
  // the image is on the small one only
  const image = { command: ["true"], image: "python:3.11", resources: { memory_mb: 1001 } };
  expect(await client.refused("POST", "/v1/tasks", image)).toMatchObject({
    code: "INSUFFICIENT_MEMORY",
    details: { largest: 1000 },
  });
  expect((await client.submit({ resources: { memory_mb: 64_000 } })).state).toBe("queued");
});

test("an image that no executor has is refused by name, with the one that was meant", async () => {
  const error = await client.refused("POST", "/v1/tasks", { command: ["true"], image: "python:3.12" });
  expect(error).toMatchObject({ code: "IMAGE_NOT_FOUND", status: 422, details: { image: "python:3.12" } });
  expect(error.message).toContain("did you mean python:3.11?");
  const digest = `sha256:${"1".repeat(64)}`;
  expect((await client.submit({ image: digest })).spec.image).toBe(digest);
});

test("what was accepted once is never refused when it is sent again, whatever has become impossible since", async () => {
  const only = await gateway.executor({}, ["debian:12"]);
  const init = { headers: { "idempotency-key": "before-the-drain" } };
  const request = { command: ["true"], image: "debian:12" };
  const first = await client.submit(request, init);
  await gateway.store.drainExecutor(only.executorId as ExecutorId);
  gateway.clock.nowMs += 60_000; // past all that is remembered of executors
  expect(await client.refused("POST", "/v1/tasks", request)).toMatchObject({ code: "IMAGE_NOT_FOUND" });
  const again = await client.send("POST", "/v1/tasks", request, init);
  expect([again.status, await again.json()]).toMatchObject([200, { id: first.id }]);
  expect(again.headers.get("location")).toBe(`/v1/tasks/${first.id}`);
  const other = { ...request, command: ["false"] };
  expect(await client.refused("POST", "/v1/tasks", other, init)).toMatchObject({
    ...{ code: "IDEMPOTENCY_KEY_REUSED", details: { task_id: first.id } },
  });
  const unused = { headers: { "idempotency-key": "after-the-drain" } };
  expect(await client.refused("POST", "/v1/tasks", request, unused)).toMatchObject({
    code: "IMAGE_NOT_FOUND",
  });
});

test("a larger executor that joins is seen by the next submission", async () => {
  const request = { command: ["true"], resources: { gpu_memory_mb: 1000 } };
  expect(await client.refused("POST", "/v1/tasks", request)).toMatchObject({
    code: "INSUFFICIENT_GPU_MEMORY",
  });
  await gateway.executor({ gpu_memory_mb: 1000 });
  expect((await client.submit(request)).state).toBe("queued");
});
