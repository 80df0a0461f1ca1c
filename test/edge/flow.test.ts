/// <reference types="@cloudflare/vitest-pool-workers/types" />
import { env, SELF } from "cloudflare:test";
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify, SignJWT } from "jose";
import { beforeAll, expect, test } from "vitest";
import { sha256 } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Attestation, Evidence } from "#core/wire/attestations.ts";
import type { PublicKey } from "#core/wire/executors.ts";
import type { Lease } from "#core/wire/leases.ts";
import { DEFAULT_RESOURCES, type Result, type Task } from "#core/wire/tasks.ts";
import { ISOLATION } from "#test/support/isolation.ts";
import { signEnrolment } from "#trace/attestation/enrolment.ts";
import { signEvidence } from "#trace/attestation/evidence.ts";

const { ADMIN_KEY, ISSUER } = env as unknown as { ADMIN_KEY: string; ISSUER: string };
const CAPACITY = {
  cpu_cores: 8,
  memory_mb: 16_384,
  gpu_memory_mb: 0,
  disk_iops: 1000,
  network_mbps: 100,
  pids: 4096,
  disk_mb: 100_000,
};
/** What runs at the same time shares the database: no other executor has this image. */
const IMAGE = "flow:1";
const HOST = { hostname: "host-1", kernel: "6.18.0", cgroup: "v2", arch: "x64" } as const;

async function call(token: string, method: string, path: string, body?: unknown): Promise<Response> {
  const headers: Record<string, string> = { authorization: `Bearer ${token}` };
  if (body !== undefined && !(body instanceof Uint8Array)) headers["content-type"] = "application/json";
  const content =
    body === undefined ? {} : { body: body instanceof Uint8Array ? body : JSON.stringify(body) };
  return SELF.fetch(`${ISSUER}${path}`, { method, headers, ...content });
}

async function ok<T>(token: string, method: string, path: string, body?: unknown): Promise<T> {
  const response = await call(token, method, path, body);
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

const textOf = async (response: Response) => new TextDecoder().decode(await response.arrayBuffer());

/** An executor that runs nothing: it speaks the protocol, and signs with a real key. */
class Executor {
  id = "";
  #keys!: CryptoKeyPair;

  async enrol(): Promise<void> {
    this.#keys = (await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair;
    const { kty, crv, x } = (await crypto.subtle.exportKey("jwk", this.#keys.publicKey)) as PublicKey;
    const enrolment = {
      public_key: { kty, crv, x },
      capacity: CAPACITY,
      images: [IMAGE],
      build: "0.1.0+test",
      host: HOST,
    };
    const request = await signEnrolment(enrolment, {
      apiKey: ADMIN_KEY,
      nowMs: Date.now(),
      sign: this.sign,
    });
    const answer = await ok<{ executor_id: string }>(ADMIN_KEY, "POST", "/v1/executors/enrol", request);
    this.id = answer.executor_id;
  }

  /** Each is another caller to the gateway: they land in different rooms. */
  token(salt: string): Promise<string> {
    const nowS = Math.floor(Date.now() / 1000);
    return new SignJWT({ salt })
      .setProtectedHeader({ alg: "EdDSA", typ: "dsec-executor+jwt" })
      .setIssuer(this.id)
      .setAudience(ISSUER)
      .setIssuedAt(nowS)
      .setExpirationTime(nowS + 60)
      .sign(this.#keys.privateKey);
  }

  sign = async (bytes: Uint8Array) =>
    new Uint8Array(await crypto.subtle.sign("Ed25519", this.#keys.privateKey, bytes as BufferSource));
}

const executor = new Executor();
let client = "";
beforeAll(async () => {
  await executor.enrol();
  const key = await ok<{ secret: string }>(ADMIN_KEY, "POST", "/v1/keys", {
    name: "client",
    scopes: ["tasks"],
  });
  client = key.secret;
});

async function finish(
  token: string,
  lease: Lease,
  stdout: string,
  files: Record<string, Uint8Array>,
): Promise<Task> {
  const put = async (bytes: Uint8Array) => {
    const digest = await sha256(bytes);
    await ok(token, "PUT", `/v1/leases/${lease.lease_id}/blobs/${digest}?fence=${lease.fence}`, bytes);
    return { digest, size: bytes.length };
  };
  const outputs = [];
  for (const [path, bytes] of Object.entries(files)) outputs.push({ path, ...(await put(bytes)) });
  const out = await put(new TextEncoder().encode(stdout));
  const result: Result = {
    outcome: { reason: "exited", exit_code: 0, signal: null, message: null },
    outputs,
    stdout: { digest: out.digest, kept_bytes: out.size, total_bytes: out.size },
    stderr: { digest: await sha256(""), kept_bytes: 0, total_bytes: 0 },
  };
  const evidence: Evidence = {
    profile: "urn:dsec:evidence:1",
    task_id: lease.task_id,
    lease_id: lease.lease_id,
    fence: lease.fence,
    attempt: lease.attempt,
    executor_id: executor.id,
    build: "0.1.0+test",
    host: HOST,
    spec_digest: lease.spec_digest,
    nonce: lease.spec.nonce,
    image: { name: lease.spec.image, digest: `sha256:${"0".repeat(64)}` },
    resources: { ...DEFAULT_RESOURCES, ...lease.spec.resources },
    isolation: ISOLATION,
    result,
    calls: { count: 0, receipts_root: null },
    trace: {
      count: 0,
      chain_head: `sha256:${"0".repeat(64)}`,
      digest: result.stdout.digest,
      size: result.stdout.kept_bytes,
    },
    durations_us: { launch: 1000, run: 2000 },
    usage: null,
  };
  const body = { fence: lease.fence, result, evidence: await signEvidence(evidence, executor.sign) };
  return ok(token, "POST", `/v1/leases/${lease.lease_id}/complete`, body);
}

const acquire = async (token: string, wait_ms: number) =>
  (await ok<{ leases: Lease[] }>(token, "POST", "/v1/leases", { free: CAPACITY, wait_ms })).leases;

test("on the edge a task goes from submission to an output and an attestation that the JWKS alone verifies", async () => {
  const token = await executor.token("flow");
  const { artifact } = await ok<{ artifact: string }>(
    client,
    "PUT",
    "/v1/artifacts",
    new TextEncoder().encode("input"),
  );
  const task = await ok<Task>(client, "POST", "/v1/tasks", {
    command: ["cat", "/input"],
    image: IMAGE,
    inputs: [{ artifact, mount_path: "/input" }],
    nonce: "nonce-12345",
  });
  const events = call(client, "GET", `/v1/tasks/${task.id}/events`).then((response) => response.text());
  const [lease] = await acquire(token, 5_000);
  expect(lease?.task_id).toBe(task.id);
  expect(await textOf(await call(token, "GET", `/v1/artifacts/${artifact}`))).toBe("input");
  const { lease_id, fence } = lease!;
  const running = { type: "running", lease_id, fence };
  const event = { type: "stdout", lease_id, fence, offset: 0, data: btoa("hello\n") };
  await ok(token, "POST", "/v1/leases/events", { events: [running, event] });
  const output = new TextEncoder().encode('{"score":1}');
  const done = await finish(token, lease!, "hello\n", { "/work/output.json": output });
  expect(done).toMatchObject({ id: task.id, state: "succeeded" });

  const names = [...(await events).matchAll(/^event: (\w+)$/gm)].map((match) => match[1]);
  expect(names).toEqual(["state", "state", "state", "stdout", "state"]);
  const content = await call(
    client,
    "GET",
    `/v1/tasks/${task.id}/outputs/content?path=%2Fwork%2Foutput.json`,
  );
  expect(await textOf(content)).toBe('{"score":1}');
  expect(await textOf(await call(client, "GET", `/v1/tasks/${task.id}/stdout`))).toBe("hello\n");

  const { items } = await ok<{ items: Attestation[] }>(client, "GET", `/v1/tasks/${task.id}/attestations`);
  const jwks = (await (await SELF.fetch(`${ISSUER}/.well-known/jwks.json`)).json()) as JSONWebKeySet;
  expect(jwks.keys.map((key) => key.alg)).toEqual(["EdDSA", "ES256"]);
  expect(JSON.stringify(jwks)).not.toContain('"d"');
  const { payload } = await jwtVerify(items[0]!.jwt, createLocalJWKSet(jwks), { issuer: ISSUER });
  expect(payload).toMatchObject({ sub: task.id, eat_nonce: "nonce-12345" });
});

test("on the edge what an attempt records is read while it runs, and as it was attested when it ended", async () => {
  const token = await executor.token("trace");
  const task = await ok<Task>(client, "POST", "/v1/tasks", { command: ["true"], image: IMAGE });
  const lease = (await acquire(token, 5_000))[0]!;
  expect(lease.task_id).toBe(task.id);
  const path = `/v1/leases/${lease.lease_id}/trace?fence=${lease.fence}`;
  const part = new TextEncoder().encode("a part of what was recorded\n");
  await ok(token, "POST", `${path}&offset=0`, part);
  expect((await call(token, "POST", `${path}&offset=999`, part)).status).toBe(409);
  const running = await call(client, "GET", `/v1/tasks/${task.id}/trace`);
  expect(running.headers.get("dsec-trace")).toBe("open");
  expect(await textOf(running)).toBe("a part of what was recorded\n");

  const following = call(client, "GET", `/v1/tasks/${task.id}/trace?follow=true&offset=2`).then(textOf);
  await ok(token, "POST", `${path}&offset=${part.length}`, part);
  await finish(token, lease, "sealed\n", {});
  expect(await following).toBe("part of what was recorded\na part of what was recorded\n");
  const sealed = await call(client, "GET", `/v1/tasks/${task.id}/trace`);
  expect(sealed.headers.get("dsec-trace")).toBe("sealed");
  expect(await textOf(sealed)).toBe("sealed\n");
});

test("a task that is submitted in one room wakes a poll that waits in the other", async () => {
  // Tokens that differ spread over the rooms: of eight, some wait where the submission is not.
  const tokens = await Promise.all(Array.from({ length: 8 }, (_, i) => executor.token(`room-${i}`)));
  await Promise.all(tokens.map((token) => acquire(token, 0)));
  const polls = tokens.map((token) =>
    acquire(token, LIMITS.longPollMs).then((leases) => ({ token, leases, atMs: performance.now() })),
  );
  await new Promise((resolve) => setTimeout(resolve, 300));
  const startMs = performance.now();
  const tasks = await Promise.all(
    tokens.map(() => ok<Task>(client, "POST", "/v1/tasks", { command: ["true"], image: IMAGE })),
  );
  const granted = await Promise.all(polls);
  expect(granted.flatMap(({ leases }) => leases.map(({ task_id }) => task_id)).toSorted()).toEqual(
    tasks.map(({ id }) => id).toSorted(),
  );
  // Nobody waited to the end.
  expect(Math.max(...granted.map(({ atMs }) => atMs)) - startMs).toBeLessThan(LIMITS.longPollMs / 2);
  for (const { token, leases } of granted) for (const lease of leases) await finish(token, lease, "", {});
});

test("content larger than one part comes back whole, whether or not its digest was announced", async () => {
  const bytes = new Uint8Array(20 * 1024 * 1024 + 7).map((_, i) => (i * 31 + (i >> 16)) % 256);
  const digest = await sha256(bytes);
  expect(await ok(client, "PUT", "/v1/artifacts", bytes)).toEqual({ artifact: digest, size: bytes.length });
  const back = await call(client, "GET", `/v1/artifacts/${digest}`);
  expect(back.headers.get("content-length")).toBe(String(bytes.length));
  expect(await sha256(new Uint8Array(await back.arrayBuffer()))).toBe(digest);

  bytes[0] = 255;
  const other = await sha256(bytes);
  const wrong = await call(client, "PUT", `/v1/artifacts?digest=sha256:${"1".repeat(64)}`, bytes);
  expect([wrong.status, await wrong.json()]).toMatchObject([422, { error: { code: "DIGEST_MISMATCH" } }]);
  expect(await ok(client, "PUT", `/v1/artifacts?digest=${other}`, bytes)).toEqual({
    artifact: other,
    size: bytes.length,
  });
});

test("bad requests are refused on the edge with the same codes", async () => {
  for (const [token, method, path, body, status, code] of [
    ["dsk_wrong", "GET", "/v1/tasks", undefined, 401, "UNAUTHENTICATED"],
    [client, "GET", "/v1/keys", undefined, 403, "FORBIDDEN"],
    [client, "POST", "/v1/tasks", { comand: [] }, 400, "INVALID_REQUEST"],
    [
      client,
      "POST",
      "/v1/tasks",
      { command: ["true"], resources: { gpu_memory_mb: 1 } },
      422,
      "INSUFFICIENT_GPU_MEMORY",
    ],
    [client, "POST", "/v1/tasks", { command: ["x".repeat(2_000_000)] }, 413, "BODY_TOO_LARGE"],
    [client, "GET", "/nothing", undefined, 404, "NOT_FOUND"],
  ] as const) {
    const response = await call(token, method, path, body);
    expect([
      path,
      response.status,
      ((await response.json()) as { error: { code: string } }).error.code,
    ]).toEqual([path, status, code]);
  }
});

test("the front page, the reference page and its files are served on the edge", async () => {
  const front = await SELF.fetch(ISSUER, { headers: { accept: "text/html" } });
  expect(front.headers.get("content-security-policy")).toMatch(/^default-src 'none'; /);
  expect(await front.text()).toContain('href="/docs"');
  const page = await (await SELF.fetch(`${ISSUER}/docs`)).text();
  for (const match of page.matchAll(/(?:src|href)="([^"]+)"/g)) {
    const response = await SELF.fetch(ISSUER + match[1]);
    expect([match[1], response.status]).toEqual([match[1], 200]);
    await response.arrayBuffer();
  }
});

test("on the edge a sandbox's message reaches one that waits in another room, once, in order, until it is acknowledged", async () => {
  // Other callers to the gateway: some two of them are served by different rooms.
  const tokens = await Promise.all([1, 2, 3, 4].map((n) => executor.token(`messages ${n}`)));
  const member = async () => {
    await ok(client, "POST", "/v1/tasks", { command: ["true"], image: IMAGE, job: "edge" });
    const [lease] = await acquire(tokens[0]!, 5_000);
    return lease!;
  };
  const [one, two] = [await member(), await member()];
  const path = ({ lease_id, fence }: Lease) => `/v1/leases/${lease_id}/messages/c?fence=${fence}`;
  const rules = { fence: one.fence, schema: { type: "number" } };
  await ok(tokens[0]!, "PUT", `/v1/leases/${one.lease_id}/messages/c`, rules);
  const waiting = tokens.map((token) =>
    ok<{ items: { id: number; from: string; json: string }[] }>(token, "GET", `${path(two)}&wait_ms=20000`),
  );
  const send = async (json: string, key: string) => {
    const headers = { authorization: `Bearer ${tokens[1]}`, "idempotency-key": key };
    const response = await SELF.fetch(`${ISSUER}${path(one)}`, { method: "POST", headers, body: json });
    return (await response.json()) as { id?: number; error?: { code: string } };
  };
  expect(await send("1.0", "a")).toEqual({ id: 1 });
  expect(await send("1.0", "a")).toEqual({ id: 1 });
  expect(await send('"two"', "b")).toMatchObject({ error: { code: "MESSAGE_REFUSED" } });
  for (const { items } of await Promise.all(waiting)) {
    expect(items).toMatchObject([{ id: 1, from: one.task_id, json: "1.0" }]);
  }
  const ack = { fence: two.fence, through: 1 };
  await ok(tokens[2]!, "POST", `/v1/leases/${two.lease_id}/messages/c/ack`, ack);
  expect(await send("1.0", "a")).toEqual({ id: 1 });
  expect(await ok(tokens[3]!, "GET", path(two))).toEqual({ items: [] });
  for (const lease of [one, two]) await finish(tokens[0]!, lease, "", {});
  const late = await call(tokens[0]!, "GET", path(one));
  expect(late.status).toBe(409);
});
