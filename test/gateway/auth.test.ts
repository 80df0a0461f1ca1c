import { generateKeyPairSync, sign } from "node:crypto";
import { SignJWT } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ExecutorId, newId } from "#core/ids.ts";
import type { Scope } from "#core/wire/keys.ts";
import { TestExecutor } from "#test/support/attestation.ts";
import { signEnrolment } from "#trace/attestation/enrolment.ts";
import {
  type Client,
  type Failure,
  ISSUER,
  openTestGateway,
  type TestGateway,
} from "./gateway-under-test.ts";

let gateway: TestGateway;
beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());

/** Every route there is, and who may call it. A route that is missing here fails the test. */
const ACCESS: Record<string, (Scope | "executor")[]> = {
  "POST /v1/tasks": ["tasks"],
  "GET /v1/tasks": ["tasks", "admin"],
  "GET /v1/tasks/{id}": ["tasks", "admin"],
  "POST /v1/tasks/{id}/cancel": ["tasks", "admin"],
  "GET /v1/tasks/{id}/events": ["tasks", "admin"],
  "GET /v1/tasks/{id}/outputs": ["tasks", "admin"],
  "GET /v1/tasks/{id}/outputs/content": ["tasks", "admin"],
  "GET /v1/tasks/{id}/stdout": ["tasks", "admin"],
  "GET /v1/tasks/{id}/stderr": ["tasks", "admin"],
  "GET /v1/tasks/{id}/attestations": ["tasks", "admin"],
  "GET /v1/tasks/{id}/wait": ["tasks", "admin"],
  "GET /v1/tasks/{id}/receipts": ["tasks", "admin"],
  "GET /v1/tasks/{id}/trace": ["tasks", "admin"],
  "POST /v1/tasks/{id}/observations": ["tasks", "admin"],
  "GET /v1/tasks/{id}/policy": ["tasks", "admin"],
  "PUT /v1/tasks/{id}/policy": ["tasks", "admin"],
  "GET /v1/secrets": ["tasks"],
  "POST /v1/secrets": ["tasks"],
  "DELETE /v1/secrets/{name}": ["tasks"],
  "PUT /v1/artifacts": ["tasks"],
  "GET /v1/artifacts/{digest}": ["tasks", "executor"],
  "POST /v1/leases": ["executor"],
  "POST /v1/leases/end-poll": ["executor"],
  "POST /v1/leases/renew": ["executor"],
  "GET /v1/leases/cancellations": ["executor"],
  "POST /v1/leases/events": ["executor"],
  "POST /v1/leases/observations": ["executor"],
  "GET /v1/leases/{id}/policy": ["executor"],
  "GET /v1/leases/{id}/receipts": ["executor"],
  "POST /v1/leases/{id}/proxy": ["executor"],
  "POST /v1/calls": ["executor"],
  "PUT /v1/leases/{id}/blobs/{digest}": ["executor"],
  "POST /v1/leases/{id}/complete": ["executor"],
  "POST /v1/leases/{id}/trace": ["executor"],
  "GET /v1/leases/{id}/trace": ["executor"],
  "POST /v1/leases/{id}/fail": ["executor"],
  "POST /v1/leases/{id}/release": ["executor"],
  "PUT /v1/leases/{id}/messages/{channel}": ["executor"],
  "POST /v1/leases/{id}/messages/{channel}": ["executor"],
  "GET /v1/leases/{id}/messages/{channel}": ["executor"],
  "POST /v1/leases/{id}/messages/{channel}/ack": ["executor"],
  "POST /v1/executors/enrol": ["executors:enrol"],
  "POST /v1/executors/heartbeat": ["executor"],
  "GET /v1/executors": ["admin"],
  "POST /v1/executors/{id}/drain": ["admin"],
  "POST /v1/keys": ["admin"],
  "GET /v1/keys": ["admin"],
  "POST /v1/keys/{id}/revoke": ["admin"],
  "POST /v1/attestations/verify": [],
  "GET /.well-known/jwks.json": [],
  "GET /.well-known/http-message-signatures-directory": [],
  "GET /": [],
  "GET /healthz": [],
  "GET /readyz": [],
  "GET /metrics": [],
};

test("each route takes the callers that it names and no other", async () => {
  const document = (await (await gateway.fetch("/openapi.json")).json()) as {
    paths: Record<string, Record<string, unknown>>;
  };
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(routes.sort()).toEqual(Object.keys(ACCESS).sort());

  const callers: Record<Scope | "executor", Client> = {
    tasks: await gateway.client("tasks"),
    admin: await gateway.client("admin"),
    "executors:enrol": await gateway.client("executors:enrol"),
    executor: await gateway.executor(),
  };
  for (const [route, access] of Object.entries(ACCESS)) {
    const [method, template] = route.split(" ") as [string, string];
    const kind = /^\/v1\/(task|lease|executor|key)s/.exec(template)?.[1] as "task" | "lease" | undefined;
    const path = template
      .replace("{id}", kind === undefined ? "" : newId(kind))
      .replace("{digest}", `sha256:${"0".repeat(64)}`);
    const anonymous = await gateway.fetch(path, { method });
    await anonymous.body?.cancel();
    if (access.length === 0) expect([route, anonymous.status === 401]).toEqual([route, false]);
    else expect([route, anonymous.status]).toEqual([route, 401]);
    for (const [name, caller] of Object.entries(callers)) {
      const query = path.endsWith("cancellations") ? "?wait_ms=0" : "";
      const response = await caller.send(method, path + query);
      await response.body?.cancel();
      const let_in = ![401, 403].includes(response.status);
      const expected = access.length === 0 || access.includes(name as Scope);
      expect([route, name, let_in]).toEqual([route, name, expected]);
    }
  }
});

test("a key that is missing, malformed, unknown or wrong is refused without being repeated", async () => {
  const client = await gateway.client("tasks");
  const wrong = `${client.secret.slice(0, -4)}AAAA`;
  const unknown = client.secret.replace(/_[^_]{26}_/, `_${newId("key").slice(4)}_`);
  for (const authorization of [
    "",
    "Basic dXNlcjpwYXNz",
    "Bearer",
    `Bearer ${client.secret} x`,
    `Bearer ${client.secret.slice(0, -1)}`,
    `Bearer ${client.secret}=`,
    `Bearer ${wrong}`,
    `Bearer ${unknown}`,
    "Bearer dsk_",
    "Bearer x.y.z",
  ]) {
    const response = await gateway.fetch("/v1/tasks", { headers: { authorization } });
    const body = await response.text();
    expect([authorization, response.status]).toEqual([authorization, 401]);
    expect(response.headers.get("www-authenticate")).toContain("Bearer");
    expect(body).toContain('"UNAUTHENTICATED"');
    // Its id may be named; the secret itself may hold underscores too.
    const [secret] = /(?<=dsk_[^_]+_).+/.exec(authorization) ?? [];
    if (secret) expect(body).not.toContain(secret.slice(0, 20));
  }
});

test("a revoked key is refused within a second, by a gateway that did not revoke it too", async () => {
  const client = await gateway.client("tasks");
  await client.ok("GET", "/v1/tasks");
  // as another instance does: this one's cache hears nothing of it
  await gateway.store.revokeKey(client.id as never);
  gateway.clock.nowMs += 1_000;
  expect(await client.refused("GET", "/v1/tasks")).toMatchObject({ code: "KEY_REVOKED", status: 401 });
});

test("a key that this gateway revokes is refused at once, and its secret was shown only at creation", async () => {
  const admin = await gateway.client("admin");
  const created = await admin.ok<{ id: string; secret: string }>("POST", "/v1/keys", {
    name: "ci",
    scopes: ["tasks"],
  });
  expect(created.secret).toMatch(/^dsk_[0-9a-z]{26}_[A-Za-z0-9_-]{43}$/);
  const headers = { authorization: `Bearer ${created.secret}` };
  expect((await gateway.fetch("/v1/tasks", { headers })).status).toBe(200);
  const listed = await (await admin.send("GET", "/v1/keys?limit=200")).text();
  expect(listed).toContain(created.id);
  expect(listed).not.toContain(created.secret.slice(-43));
  expect(listed).not.toContain("secret");
  await admin.ok("POST", `/v1/keys/${created.id}/revoke`);
  await admin.ok("POST", `/v1/keys/${created.id}/revoke`);
  expect((await gateway.fetch("/v1/tasks", { headers })).status).toBe(401);
  expect(await admin.refused("POST", `/v1/keys/${newId("key")}/revoke`)).toMatchObject({
    code: "KEY_NOT_FOUND",
  });
});

test("a key is refused from the moment it expires, and none is created that has expired already", async () => {
  const admin = await gateway.client("admin");
  const expires_at = new Date(gateway.clock.nowMs + 5_000).toISOString();
  const body = { name: "short", scopes: ["tasks"], expires_at };
  const { secret } = await admin.ok<{ secret: string }>("POST", "/v1/keys", body);
  const headers = { authorization: `Bearer ${secret}` };
  expect((await gateway.fetch("/v1/tasks", { headers })).status).toBe(200);
  gateway.clock.nowMs += 5_000;
  expect((await gateway.fetch("/v1/tasks", { headers })).status).toBe(401);
  expect(await admin.refused("POST", "/v1/keys", body)).toMatchObject({ code: "INVALID_REQUEST" });
});

test("a task and what it left are seen by its own key and by administrators alone", async () => {
  const [owner, stranger, admin] = [
    await gateway.client("tasks"),
    await gateway.client("tasks"),
    await gateway.client("admin"),
  ];
  const task = await owner.submit();
  for (const path of ["", "/events", "/outputs", "/stdout", "/outputs/content?path=x", "/attestations"]) {
    expect([path, await stranger.refused("GET", `/v1/tasks/${task.id}${path}`)]).toMatchObject([
      path,
      { code: "TASK_NOT_FOUND", status: 404 },
    ]);
  }
  expect(await stranger.refused("POST", `/v1/tasks/${task.id}/cancel`)).toMatchObject({
    code: "TASK_NOT_FOUND",
  });
  const { items } = await stranger.ok<{ items: unknown[] }>("GET", "/v1/tasks");
  expect(items).toEqual([]);
  expect(await admin.ok("GET", `/v1/tasks/${task.id}`)).toMatchObject({ id: task.id });
  expect(await admin.ok("POST", `/v1/tasks/${task.id}/cancel`)).toMatchObject({ state: "cancelled" });
});

test("an executor's token is taken only as its own short, current, explicitly typed EdDSA token for this gateway", async () => {
  const executor = await gateway.executor();
  const other = await gateway.executor();
  const nowS = Math.floor(gateway.clock.nowMs / 1000);
  const beat = async (token: string) => {
    const response = await gateway.fetch("/v1/leases/cancellations?wait_ms=0", {
      headers: { authorization: `Bearer ${token}` },
    });
    return [response.status, ((await response.json()) as { error?: { message: string } }).error?.message];
  };
  expect(await beat(await executor.token())).toEqual([200, undefined]);
  // B51: a clock that is a few seconds off at either end is no reason to refuse
  expect(await beat(await executor.token({ iat: nowS + 4 }))).toEqual([200, undefined]);
  expect(await beat(await executor.token({ iat: nowS - 64, exp: nowS - 4 }))).toEqual([200, undefined]);

  const hs256 = await new SignJWT({})
    .setProtectedHeader({ alg: "HS256", typ: "dsec-executor+jwt" })
    .setIssuer(executor.executorId)
    .setAudience(ISSUER)
    .setIssuedAt(nowS)
    .setExpirationTime(nowS + 60)
    .sign(new TextEncoder().encode(executor.identity.publicKey.x.padEnd(64, "=")));
  const good = await executor.token();
  const [header, payload, signature] = good.split(".") as [string, string, string];
  const none = Buffer.from(JSON.stringify({ alg: "none", typ: "dsec-executor+jwt" })).toString("base64url");
  const crit = Buffer.from(
    JSON.stringify({ alg: "EdDSA", typ: "dsec-executor+jwt", crit: ["x"], x: 1 }),
  ).toString("base64url");
  const signedCrit = sign(null, Buffer.from(`${crit}.${payload}`), executor.identity.privateKey).toString(
    "base64url",
  );
  const refused: Record<string, string> = {
    "too long a life": await executor.token({ exp: nowS + 61 }),
    expired: await executor.token({ iat: nowS - 120, exp: nowS - 60 }),
    "from the future": await executor.token({ iat: nowS + 600 }),
    "old, with a far expiry": await executor.token({ iat: nowS - 600, exp: nowS + 60 }),
    "for another gateway": await executor.token({ aud: "https://elsewhere.example" }),
    "of another type": await executor.token({ typ: "JWT" }),
    "in another's name": await executor.token({ iss: other.executorId }),
    "of an executor that never enrolled": await executor.token({ iss: newId("executor") }),
    "of no executor": await executor.token({ iss: "root" }),
    "with the public key as a secret (B49)": hs256,
    "unsigned (B49)": `${none}.${payload}.`,
    "with an unknown crit": `${crit}.${payload}.${signedCrit}`,
    "with another payload": `${header}.${Buffer.from(JSON.stringify({ iss: executor.executorId })).toString("base64url")}.${signature}`,
    "with a bit flipped": `${header}.${payload}.${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`,
  };
  for (const [what, token] of Object.entries(refused)) {
    const [status, message] = await beat(token);
    expect([what, status]).toEqual([what, 401]);
    expect(message).not.toContain(token.slice(-20));
  }
});

test("an executor whose clock is wrong is told the time, by a Date header that it can set its clock by (B60)", async () => {
  const executor = await gateway.executor();
  const nowS = Math.floor(gateway.clock.nowMs / 1000);
  for (const offsetS of [-600, 600]) {
    const token = await executor.token({ iat: nowS + offsetS });
    const response = await gateway.fetch("/v1/leases/cancellations?wait_ms=0", {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(response.status).toBe(401);
    expect(await response.text()).toContain("Date header");
    const corrected = Math.floor(Date.parse(response.headers.get("date")!) / 1000);
    expect(corrected).toBe(nowS);
    const again = await gateway.fetch("/v1/leases/cancellations?wait_ms=0", {
      headers: { authorization: `Bearer ${await executor.token({ iat: corrected })}` },
    });
    expect(again.status).toBe(200);
  }
});

test("a token that was good is refused once it has expired, though it was used before", async () => {
  const executor = await gateway.executor();
  const headers = { authorization: `Bearer ${await executor.token()}` };
  expect((await gateway.fetch("/v1/leases/cancellations?wait_ms=0", { headers })).status).toBe(200);
  gateway.clock.nowMs += 66_000;
  expect((await gateway.fetch("/v1/leases/cancellations?wait_ms=0", { headers })).status).toBe(401);
});

test("enrolling the same key again is the same executor, and only an Ed25519 key that signed it is taken", async () => {
  const enroller = await gateway.client("executors:enrol");
  const executor = await gateway.executor();
  const enrolment = {
    public_key: executor.identity.publicKey,
    capacity: {
      cpu_cores: 1,
      memory_mb: 1,
      gpu_memory_mb: 0,
      disk_iops: 0,
      network_mbps: 0,
      pids: 2,
      disk_mb: 1,
    },
    images: [],
    build: "b",
    host: { hostname: "h", kernel: "k", cgroup: "v1" as const, arch: "x64" },
  };
  const own = {
    apiKey: enroller.secret,
    sign: (bytes: Uint8Array) => executor.identity.sign(bytes),
    nowMs: gateway.clock.nowMs,
  };
  const request = await signEnrolment(enrolment, own);
  expect(await enroller.ok("POST", "/v1/executors/enrol", request)).toEqual({
    executor_id: executor.executorId,
    issuer: ISSUER,
  });
  const other = await gateway.client("executors:enrol");
  const stranger = new TestExecutor();
  const small = { ...request, public_key: { ...request.public_key, x: "A".repeat(43) } };
  for (const unproven of [
    await signEnrolment(enrolment, { ...own, sign: stranger.sign }),
    await signEnrolment(enrolment, { ...own, apiKey: other.secret }),
    { ...request, build: "another" },
    { ...request, iat: request.iat + 1 },
    small,
  ]) {
    const refused = await enroller.refused("POST", "/v1/executors/enrol", unproven);
    expect(refused).toMatchObject({ code: "ENROLMENT_UNPROVEN" });
    expect(refused.message).toContain(unproven.public_key.x);
  }
  const { signature: _signature, ...unsigned } = request;
  expect(await enroller.refused("POST", "/v1/executors/enrol", unsigned)).toMatchObject({
    code: "INVALID_REQUEST",
  });
  const p256 = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" });
  const wrong = { ...request, public_key: p256 };
  expect(await enroller.refused("POST", "/v1/executors/enrol", wrong)).toMatchObject({
    code: "INVALID_REQUEST",
  });
});

test("an enrolment that was made once cannot be made again later by who saw it, nor one from the future", async () => {
  const enroller = await gateway.client("executors:enrol");
  const executor = await gateway.executor({ memory_mb: 4096 });
  const { public_key, capacity, images, build, host } = await gateway.store.findExecutor(
    executor.executorId as ExecutorId,
  );
  const enrolment = { public_key, capacity, images, build, host };
  const signedAt = (offsetS: number) =>
    signEnrolment(enrolment, {
      apiKey: enroller.secret,
      nowMs: gateway.clock.nowMs + offsetS * 1000,
      sign: (bytes) => executor.identity.sign(bytes),
    });
  const seen = await signedAt(0);
  await enroller.ok("POST", "/v1/executors/enrol", seen);
  gateway.clock.nowMs += 66_000;
  for (const untimely of [seen, await signedAt(-66), await signedAt(7)]) {
    const response = await enroller.send("POST", "/v1/executors/enrol", untimely);
    const { error } = (await response.json()) as Failure;
    expect([response.status, error.code]).toEqual([422, "ENROLMENT_UNTIMELY"]);
    // by which it is signed anew
    expect(Date.parse(response.headers.get("date")!)).toBe(Math.floor(gateway.clock.nowMs / 1000) * 1000);
    expect(error.message).toContain("Date header");
  }
  for (const offsetS of [-59, 0, 4]) {
    const { executor_id } = await enroller.ok<{ executor_id: string }>(
      "POST",
      "/v1/executors/enrol",
      await signedAt(offsetS),
    );
    expect(executor_id).toBe(executor.executorId);
  }
});
