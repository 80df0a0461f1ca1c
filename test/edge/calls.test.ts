/// <reference types="@cloudflare/vitest-pool-workers/types" />
/**
 * Tool calls through the gateway in workerd, to a server on localhost. The runtime resolves names itself, so nothing
 * is pinned here; everything else holds as on Node.
 */
import { env, SELF } from "cloudflare:test";
import { createLocalJWKSet, decodeJwt, type JSONWebKeySet, jwtVerify, SignJWT } from "jose";
import { beforeAll, expect, test } from "vitest";
import { sha256 } from "#core/json.ts";
import {
  type AnswerEnd,
  type AnswerError,
  type AnswerHead,
  AnswerHeadSchema,
  type AnswerReceipt,
  FRAME,
  ReceiptClaimsSchema,
} from "#core/wire/calls.ts";
import type { PublicKey } from "#core/wire/executors.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { PolicyRequest } from "#core/wire/policy.ts";
import type { Task } from "#core/wire/tasks.ts";
import { signEnrolment } from "#trace/attestation/enrolment.ts";

const { ADMIN_KEY, ISSUER, UPSTREAM_PORT, HOSTILE_PORT, HOSTILE_ANSWERS } = env as unknown as Record<
  string,
  string
>;
const PORT = Number(UPSTREAM_PORT);
const URL_ = `http://localhost:${PORT}`;
const CAPACITY = {
  cpu_cores: 64,
  memory_mb: 65_536,
  gpu_memory_mb: 0,
  disk_iops: 0,
  network_mbps: 0,
  pids: 65_536,
  disk_mb: 100_000,
};
/** What runs at the same time shares the database: no other executor has this image. */
const IMAGE = "calls:1";
const RULE = { host: "localhost", port: PORT, plain_http: true };

let token: string;
let executorToken: () => Promise<string>;

async function ok<T>(authorization: string, method: string, path: string, body?: unknown): Promise<T> {
  const response = await SELF.fetch(`${ISSUER}${path}`, {
    method,
    headers: { authorization: `Bearer ${authorization}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

beforeAll(async () => {
  const pair = (await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair;
  const { kty, crv, x } = (await crypto.subtle.exportKey("jwk", pair.publicKey)) as PublicKey;
  const enrolment = {
    public_key: { kty, crv, x },
    capacity: CAPACITY,
    images: [IMAGE],
    build: "0.1.0+test",
    host: { hostname: "host-calls", kernel: "6.18.0", cgroup: "v2" as const, arch: "x64" },
  };
  const sign = async (bytes: Uint8Array) =>
    new Uint8Array(await crypto.subtle.sign("Ed25519", pair.privateKey, bytes as BufferSource));
  const request = await signEnrolment(enrolment, { apiKey: ADMIN_KEY!, nowMs: Date.now(), sign });
  const { executor_id } = await ok<{ executor_id: string }>(
    ADMIN_KEY!,
    "POST",
    "/v1/executors/enrol",
    request,
  );
  executorToken = async () => {
    const nowS = Math.floor(Date.now() / 1000);
    return new SignJWT({})
      .setProtectedHeader({ alg: "EdDSA", typ: "dsec-executor+jwt" })
      .setIssuer(executor_id)
      .setAudience(ISSUER!)
      .setIssuedAt(nowS)
      .setExpirationTime(nowS + 60)
      .sign(pair.privateKey);
  };
  const key = await ok<{ secret: string }>(ADMIN_KEY!, "POST", "/v1/keys", {
    name: "calls",
    scopes: ["tasks"],
  });
  token = key.secret;
});

async function lease(policy: PolicyRequest): Promise<Lease> {
  const task = await ok<Task>(token, "POST", "/v1/tasks", {
    command: ["true"],
    image: IMAGE,
    policy,
    resources: { cpu_cores: 0.1, memory_mb: 4 },
  });
  const body = { free: CAPACITY, max_leases: 1, wait_ms: 5_000 };
  const { leases } = await ok<{ leases: Lease[] }>(await executorToken(), "POST", "/v1/leases", body);
  expect(leases[0]?.task_id).toBe(task.id);
  return leases[0]!;
}

let seq = 0;
async function call(
  held: Lease,
  url: string,
  more: {
    method?: string;
    body?: string;
    timeoutMs?: number;
    headers?: [string, string][];
    answer?: string;
  } = {},
) {
  const body = new TextEncoder().encode(more.body ?? "");
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", body));
  const head = new TextEncoder().encode(
    JSON.stringify({
      seq: ++seq,
      tool: null,
      method: more.method ?? "GET",
      url,
      headers: more.headers ?? [["X-Own", "kept"]],
      content_digest: `sha-256=:${btoa(String.fromCharCode(...hash))}:`,
      content_length: body.length,
      timeout_ms: more.timeoutMs ?? 10_000,
      prev: `sha256:${"0".repeat(64)}`,
      call_signature: null,
      ...(more.answer === undefined ? {} : { answer: more.answer }),
    }),
  );
  const packed = new Uint8Array(4 + head.length + body.length);
  new DataView(packed.buffer).setUint32(0, head.length);
  packed.set(head, 4);
  packed.set(body, 4 + head.length);
  const response = await SELF.fetch(`${ISSUER}/v1/leases/${held.lease_id}/proxy?fence=${held.fence}`, {
    method: "POST",
    headers: { authorization: `Bearer ${await executorToken()}` },
    body: packed,
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (!response.ok) {
    const { error } = JSON.parse(new TextDecoder().decode(bytes)) as {
      error: { code: string; message: string };
    };
    return { refused: error };
  }
  let answer: {
    head?: AnswerHead;
    text: string;
    end?: AnswerEnd;
    receipt?: AnswerReceipt;
    error?: AnswerError;
  } = { text: "" };
  for (let at = 0; at < bytes.length; ) {
    const length = new DataView(bytes.buffer).getUint32(at + 1);
    const payload = new TextDecoder().decode(bytes.subarray(at + 5, at + 5 + length));
    if (bytes[at] === FRAME.data) answer.text += payload;
    else if (bytes[at] === FRAME.head) answer = { ...answer, head: JSON.parse(payload) as AnswerHead };
    else if (bytes[at] === FRAME.end) answer = { ...answer, end: JSON.parse(payload) as AnswerEnd };
    else if (bytes[at] === FRAME.receipt)
      answer = { ...answer, receipt: JSON.parse(payload) as AnswerReceipt };
    else answer = { ...answer, error: JSON.parse(payload) as AnswerError };
    at += 5 + length;
  }
  return answer;
}

test("a call from workerd is signed, made, fingerprinted and receipted, and says that nothing was pinned", async () => {
  const held = await lease({ rules: [RULE] });
  const answer = await call(held, `${URL_}/tool?x=1`, { method: "POST", body: "words" });
  expect(answer).toMatchObject({ head: { status: 200, redirects: [] } });
  if (!("end" in answer)) throw new Error(JSON.stringify(answer));
  const seen = JSON.parse(answer.text) as { headers: Record<string, string> };
  expect(seen).toMatchObject({
    method: "POST",
    url: "/tool?x=1",
    body: "words",
    headers: { "x-own": "kept" },
  });
  expect(answer.end!.fingerprint!.body).toBe(await sha256(answer.text));
  const keys = createLocalJWKSet(await ok<JSONWebKeySet>(token, "GET", "/.well-known/jwks.json"));
  const { payload: receipt } = await jwtVerify(answer.receipt!.receipt, keys, {
    issuer: ISSUER!,
    typ: "dsec-receipt+jwt",
  });
  expect(receipt).toMatchObject({ pinned_dns: false, status: 200, bytes_up: 5 });
  const { payload: claims } = await jwtVerify(seen.headers["dsec-call-signature"]!, keys, {
    typ: "dsec-call+jwt",
  });
  expect(claims).toMatchObject({ htm: "POST", htu: `${URL_}/tool`, sub: held.lease_id });
  const { items } = await ok<{ items: { receipt: string }[] }>(
    token,
    "GET",
    `/v1/tasks/${held.task_id}/receipts`,
  );
  expect(items.map((item) => item.receipt)).toEqual([answer.receipt!.receipt]);
});

test("a large body is streamed with the length that its head says", async () => {
  const held = await lease({ rules: [RULE] });
  const answer = await call(held, `${URL_}/tool`, { method: "POST", body: "w".repeat(400_000) });
  if (!("end" in answer)) throw new Error(JSON.stringify(answer));
  const seen = JSON.parse(answer.text) as { body: string; headers: Record<string, string> };
  expect(seen.body.length).toBe(400_000);
  expect(seen.headers["content-length"]).toBe("400000");
});

test("workerd enforces names, literals, redirects, sizes and times", async () => {
  const held = await lease({ rules: [RULE], response_bytes_max: 50_000 });
  const code = async (url: string, timeoutMs = 10_000) => {
    const answer = await call(held, url, { timeoutMs });
    return "refused" in answer ? answer.refused.code : answer.error?.code;
  };
  expect(await code("http://evil.test/")).toBe("DOMAIN_NOT_ALLOWED");
  expect(await code("http://169.254.169.254/")).toBe("ADDRESS_NOT_ALLOWED");
  expect(await code(`http://localhost:${PORT + 1}/`)).toBe("PORT_NOT_ALLOWED");
  expect(await code(`${URL_}/redirect`)).toBe("ADDRESS_NOT_ALLOWED");
  expect(await code(`${URL_}/large`)).toBe("RESPONSE_TOO_LARGE");
  expect(await code(`${URL_}/gzip`)).toBe("RESPONSE_TOO_LARGE");
  expect(await code(`${URL_}/silent`, 300)).toBe("CALL_TIMED_OUT");
});

test("a program gets each redirect as it came, and its own Accept-Encoding is sent", async () => {
  const held = await lease({ rules: [RULE], response_bytes_max: 50_000 });
  const name = latin1("发票 é");
  const answer = await call(held, `${URL_}/raw`, {
    answer: "verbatim",
    headers: [
      ["X-Own", name],
      ["Accept-Encoding", "gzip;q=0.5, x-own"],
    ],
  });
  expect(answer).toMatchObject({ head: { status: 302, redirects: [] }, text: "moved\n" });
  const { headers } = (answer as { head: AnswerHead }).head;
  expect(headers.filter(([field]) => /^(location|x-.*|set-cookie)$/i.test(field))).toEqual([
    ["location", latin1("/发票/café")],
    ["set-cookie", "a=1"],
    ["set-cookie", "b=2"],
    ["x-coding", "gzip;q=0.5, x-own"],
    ["x-echo", name],
  ]);
});

test("what workerd decodes by itself comes decoded to a program too, and what is known to be too large not at all", async () => {
  const held = await lease({ rules: [RULE], response_bytes_max: 100_000 });
  const verbatim = { answer: "verbatim", headers: [["Accept-Encoding", "gzip"]] as [string, string][] };
  const answer = await call(held, `${URL_}/gzip`, verbatim);
  if (!("end" in answer)) throw new Error(JSON.stringify(answer));
  expect(answer.text).toBe("g".repeat(100_000));
  expect(answer.head!.headers.map(([name]) => name)).not.toContain("content-encoding");
  expect(answer.end!.fingerprint!.body).toBe(await sha256(answer.text));
  const bounded = await lease({ rules: [RULE], response_bytes_max: 99_999 });
  for (const path of ["/gzip", "/large"]) {
    const refused = await call(bounded, `${URL_}${path}`, verbatim);
    expect(refused).toMatchObject({ error: { code: "RESPONSE_TOO_LARGE" } });
  }
  const { error, text } = (await call(bounded, `${URL_}/large`, verbatim)) as {
    error: AnswerError;
    text: string;
  };
  expect(text).toBe("");
  expect(error.message).toContain("its Content-Length is 100000");
});

/** One character for each byte of the text in UTF-8. */
function latin1(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

test("a policy that requires pinned DNS is refused here, with what to do instead", async () => {
  const held = await lease({ rules: [RULE], require_pinned_dns: true });
  expect(await call(held, `${URL_}/`)).toMatchObject({
    refused: { code: "DNS_NOT_PINNED", message: expect.stringContaining("Node") },
  });
});

test("a secret is sealed, injected and not shown in workerd as well", async () => {
  await ok(token, "POST", "/v1/secrets", {
    name: "EDGE",
    value: "Bearer edge-secret-1",
    hosts: ["localhost"],
  });
  const held = await lease({
    rules: [RULE],
    secrets: [{ host: "localhost", header: "Authorization", secret: "EDGE", plain_http: true }],
  });
  const answer = await call(held, `${URL_}/`);
  expect(answer).toMatchObject({ head: { headers: expect.arrayContaining([["x-authorized", "true"]]) } });
  expect(JSON.stringify(answer)).not.toContain("edge-secret-1");
});

test("whatever an upstream answers, its call ends by a code or is passed on, with a receipt that says the same", async () => {
  const held = await lease({ rules: [{ ...RULE, port: Number(HOSTILE_PORT) }] });
  const hold = { lease_id: held.lease_id, fence: held.fence };
  const answers = (JSON.parse(HOSTILE_ANSWERS!) as string[]).entries();
  const passedOn: string[] = [];
  const askEach = async () => {
    for (const [number, what] of answers) {
      if (number % 20 === 0) await ok(await executorToken(), "POST", "/v1/leases/renew", { leases: [hold] });
      const answer = await call(held, `http://localhost:${HOSTILE_PORT}/${number}`, { timeoutMs: 5_000 });
      const told = `${what}: ${JSON.stringify(answer)}`;
      if ("refused" in answer) throw new Error(told);
      const { head, end, error } = answer;
      if (head !== undefined) expect(AnswerHeadSchema.safeParse(head).error, told).toBeUndefined();
      const receipt = answer.receipt?.receipt ?? error?.receipt;
      expect(receipt, told).toEqual(expect.any(String));
      const claims = ReceiptClaimsSchema.parse(decodeJwt(receipt!));
      if (end === undefined) {
        expect(error!.code, told).not.toBe("INTERNAL");
        expect(claims, told).toMatchObject({ error: error!.code });
      } else {
        const { fingerprint } = end;
        expect(claims, told).toMatchObject({ error: null, status: head!.status, fingerprint });
        passedOn.push(what);
      }
    }
  };
  await Promise.all(Array.from({ length: 8 }, askEach));
  const passed = ["status 200", "status 599", "status 600", "status 999", "300 header fields"];
  expect(passedOn).toEqual(expect.arrayContaining(passed));
});
