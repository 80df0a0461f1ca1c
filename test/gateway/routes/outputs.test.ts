import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { Task } from "#core/wire/tasks.ts";
import { contentDisposition } from "#gateway/reply.ts";
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

async function finished(files: Record<string, string>, stdout = ""): Promise<Task> {
  await client.submit();
  const [lease] = await executor.acquire();
  await executor.start(lease!);
  return executor.finish(lease!, { stdout, files });
}

const contentPath = (task: Task, path: string) =>
  `/v1/tasks/${task.id}/outputs/content?path=${encodeURIComponent(path)}`;

// As the executor writes them: the percent sign stands escaped.
const NAMES: [path: string, exact: string][] = [
  ["/work/发票.pdf", "UTF-8''%E5%8F%91%E7%A5%A8.pdf"],
  ["/work/år.pdf", "UTF-8''%C3%A5r.pdf"],
  ['/work/a"b.txt', "UTF-8''a%22b.txt"],
  ["/work/a;b.txt", "UTF-8''a%3Bb.txt"],
  ["/work/a\r\nSet-Cookie: x=1", "UTF-8''a%0D%0ASet-Cookie%3A%20x%3D1"],
  ["/work/100%25.txt", "UTF-8''100%25.txt"],
  ["/work/%FF.bin", "UTF-8''%25FF.bin"],
  ["/work/(it's) *", "UTF-8''%28it%27s%29%20%2A"],
  ["/work/back\\slash", "UTF-8''back%5Cslash"],
  ["/work/\u202Egnp.exe", "UTF-8''%E2%80%AEgnp.exe"],
];

test("an output of any name downloads under that name, and no name can split a header (B41)", async () => {
  const task = await finished(Object.fromEntries(NAMES.map(([path], i) => [path, `content ${i}`])));
  for (const [i, [path, exact]] of NAMES.entries()) {
    const response = await client.send("GET", contentPath(task, path));
    expect([path, response.status]).toEqual([path, 200]);
    expect(await response.text()).toBe(`content ${i}`);
    const disposition = response.headers.get("content-disposition")!;
    expect(disposition).toMatch(/^attachment; filename="[\x20-\x7e]*"; filename\*=/);
    expect(disposition.slice(disposition.indexOf("filename*=") + "filename*=".length)).toBe(exact);
    expect(response.headers.get("set-cookie")).toBeNull();
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
  }
});

test("a file name cannot end its quotes, whatever its bytes are", () => {
  // every ASCII character, then some beyond, and a lone surrogate
  for (let code = 0; code < 256; code++) {
    const header = contentDisposition(`a${String.fromCharCode(code)}b`);
    expect(header).toMatch(/^attachment; filename="a[^"\\\r\n]b"; filename\*=UTF-8''a[A-Za-z0-9%._~!&-]+b$/);
  }
  expect(contentDisposition("\ud800")).toContain("UTF-8''%EF%BF%BD");
});

test("HEAD answers with the headers of GET and no body, on every kind of answer (B38)", async () => {
  const task = await finished({ "/work/a": "x".repeat(100_000) }, "printed");
  const artifact = await client.upload("artifact");
  for (const path of [
    `/v1/tasks/${task.id}`,
    "/v1/tasks?limit=1",
    `/v1/tasks/${task.id}/outputs`,
    contentPath(task, "/work/a"),
    `/v1/tasks/${task.id}/stdout`,
    `/v1/tasks/${task.id}/stderr`,
    `/v1/artifacts/${artifact}`,
    `/v1/tasks/${newId("task")}`,
    contentPath(task, "/work/none"),
    "/nothing/here",
    "/.well-known/jwks.json",
    "/",
    "/healthz",
    "/openapi.json",
    "/docs",
  ]) {
    const headers = { "x-request-id": "same-for-both" };
    const get = await client.send("GET", path, undefined, { headers });
    const head = await client.send("HEAD", path, undefined, { headers });
    const body = new Uint8Array(await get.arrayBuffer());
    expect([path, head.status]).toEqual([path, get.status]);
    expect([path, Object.fromEntries(head.headers)]).toEqual([path, Object.fromEntries(get.headers)]);
    expect([path, head.headers.get("content-length")]).toEqual([path, String(body.length)]);
    expect(await head.text()).toBe("");
  }
});

test("content is addressed: its ETag is its digest, and a client that has it gets nothing again", async () => {
  const content = "x".repeat(1000);
  const task = await finished({ "/work/a": content });
  const response = await client.send("GET", contentPath(task, "/work/a"));
  const hash = createHash("sha256").update(content);
  expect(response.headers.get("repr-digest")).toBe(`sha-256=:${hash.copy().digest("base64")}:`);
  const etag = response.headers.get("etag")!;
  expect(etag).toBe(`"sha256:${hash.digest("hex")}"`);
  const again = await client.send("GET", contentPath(task, "/work/a"), undefined, {
    headers: { "if-none-match": etag },
  });
  expect([again.status, await again.text()]).toEqual([304, ""]);
});

test("an output that is not there is refused by name: before the end, after it, and with the name that was meant", async () => {
  const waiting = await client.submit();
  const early = await client.refused("GET", `/v1/tasks/${waiting.id}/stdout`);
  expect(early).toMatchObject({ code: "OUTPUT_NOT_FOUND", status: 404 });
  expect(early.message).toContain("queued");
  expect(await client.ok("GET", `/v1/tasks/${waiting.id}/outputs`)).toEqual({ items: [] });
  await client.ok("POST", `/v1/tasks/${waiting.id}/cancel`);

  const task = await finished({ "/work/output.json": "{}" });
  const misspelt = await client.refused("GET", contentPath(task, "/work/ouput.json"));
  expect(misspelt.message).toContain("did you mean /work/output.json?");
  expect(await client.refused("GET", `/v1/tasks/${task.id}/outputs/content`)).toMatchObject({
    code: "INVALID_REQUEST",
  });
  const twice = `${contentPath(task, "/work/output.json")}&path=x`;
  expect(await client.refused("GET", twice)).toMatchObject({ code: "INVALID_REQUEST" });
});

test("an artifact comes back as it went in, and announced content that differs leaves nothing behind", async () => {
  const bytes = crypto.getRandomValues(new Uint8Array(300_000 % 65_536));
  const artifact = await client.upload(bytes);
  expect(artifact).toBe(`sha256:${createHash("sha256").update(bytes).digest("hex")}`);
  const back = await client.send("GET", `/v1/artifacts/${artifact}`);
  expect(Buffer.from(await back.arrayBuffer()).equals(Buffer.from(bytes))).toBe(true);
  expect(await client.ok("PUT", `/v1/artifacts?digest=${artifact}`, bytes)).toEqual({
    artifact,
    size: bytes.length,
  });

  const announced = `sha256:${"5".repeat(64)}`;
  const error = await client.refused("PUT", `/v1/artifacts?digest=${announced}`, bytes);
  expect(error).toMatchObject({ code: "DIGEST_MISMATCH", status: 422 });
  expect(await client.refused("GET", `/v1/artifacts/${announced}`)).toMatchObject({
    code: "ARTIFACT_NOT_FOUND",
  });
  const headers = { "content-length": String(LIMITS.artifactBytes + 1) };
  expect(await client.refused("PUT", "/v1/artifacts", "x", { headers })).toMatchObject({
    code: "BODY_TOO_LARGE",
  });
});

test("who only knows a digest cannot get the content by claiming to have it", async () => {
  const artifact = await client.upload("private to its key");
  const stranger = await gateway.client("tasks");
  expect(await stranger.refused("GET", `/v1/artifacts/${artifact}`)).toMatchObject({
    code: "ARTIFACT_NOT_FOUND",
  });
  const claim = await stranger.refused("PUT", `/v1/artifacts?digest=${artifact}`, "");
  expect(claim).toMatchObject({ code: "DIGEST_MISMATCH" });
  expect(await stranger.refused("GET", `/v1/artifacts/${artifact}`)).toMatchObject({
    code: "ARTIFACT_NOT_FOUND",
  });
});

test("an output of one task is an input of the next", async () => {
  const task = await finished({ "/work/model": "weights" });
  const artifact = task.result!.outputs[0]!.digest;
  const next = await client.submit({ inputs: [{ artifact, mount_path: "/model" }] });
  expect(await (await client.send("GET", `/v1/artifacts/${artifact}`)).text()).toBe("weights");
  await client.ok("POST", `/v1/tasks/${next.id}/cancel`);
});

test("content that was damaged in the blob store is refused by name, not sent as if it were whole", async () => {
  const task = await finished({ "/work/a": "0123456789" }, "printed");
  const { blobs } = gateway.ports;
  const { get, size } = blobs;
  let cancelled = 0;
  blobs.size = async () => 4;
  blobs.get = async () => ({
    size: 4,
    body: new ReadableStream({
      cancel() {
        cancelled++;
      },
    }),
  });
  try {
    for (const path of [contentPath(task, "/work/a"), `/v1/tasks/${task.id}/stdout`]) {
      expect(await client.refused("GET", path)).toMatchObject({ code: "OUTPUT_NOT_FOUND" });
      expect((await client.send("HEAD", path)).status).toBe(404);
    }
    expect(cancelled).toBe(2);
  } finally {
    Object.assign(blobs, { get, size });
  }
});
