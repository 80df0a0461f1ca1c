/** Call signatures: what they bind, that each is good once and for a moment, and who can verify them (B45). */
import { createPublicKey } from "node:crypto";
import { createVerifier, httpbis } from "http-message-signatures";
import { calculateJwkThumbprint, createLocalJWKSet, type JSONWebKeySet, jwtVerify, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { parseUrl } from "#core/policy/url.ts";
import type { CallClaims, CallHead } from "#core/wire/calls.ts";
import { callVerifier } from "#examples/upstream-verifier/server.ts";
import { boundUrl, checkCallSignature, signatureFields, signCall } from "#gateway/signing/call-signature.ts";
import { createKeyRing } from "#gateway/signing/key-ring.ts";
import { generateWebCryptoSigner } from "#gateway/signing/webcrypto-signer.ts";
import { ISSUER } from "../gateway-under-test.ts";
import {
  bodyOf,
  claimsOf,
  contentDigest,
  digest,
  openTestProxy,
  PREV,
  reach,
  readAnswer,
  type Sandbox,
  type TestProxy,
} from "./proxy-under-test.ts";

type Seen = { method: string; url: string; headers: NodeJS.Dict<string | string[]>; body: Buffer };

let proxy: TestProxy;
let sandbox: Sandbox;
let url: string;
let jwksUrl: string;
const seen: Seen[] = [];

beforeAll(async () => {
  proxy = await openTestProxy();
  const server = await proxy.serve(async (request, response) => {
    seen.push({
      method: request.method!,
      url: request.url!,
      headers: request.headers,
      body: await bodyOf(request),
    });
    response.end("ok");
  });
  url = server.url;
  jwksUrl = (
    await proxy.serve(async (request, response) => {
      const answer = await proxy.gateway.fetch(request.url!);
      response.end(await answer.text());
    })
  ).url;
  sandbox = await proxy.lease(reach(server.port));
});
beforeEach(() => {
  proxy.gateway.clock.nowMs = Date.now();
});
afterAll(() => proxy?.close());

async function callOnce(path = "/tool?b=2&a=1", body = "argument"): Promise<Seen> {
  await sandbox.call(`${url}${path}`, { method: "POST", body });
  return seen.at(-1)!;
}

test("the example upstream knows by a stock library which sandbox calls", async () => {
  const verify = callVerifier({ gateway: jwksUrl, issuer: ISSUER, origin: url });
  const request = await callOnce();
  expect(await verify(request, request.body)).toBe(sandbox.lease.lease_id);
  await expect(verify(request, request.body)).rejects.toThrow(/used before/);
});

/** Signed once, then changed: whoever receives it must not take it for what was signed. */
const CHANGES: [what: string, change: (request: Seen) => void][] = [
  ["another method", (r) => (r.method = "PUT")],
  ["another path", (r) => (r.url = "/other?b=2&a=1")],
  ["parameters in another order", (r) => (r.url = "/tool?a=1&b=2")],
  ["a parameter more", (r) => (r.url = "/tool?b=2&a=1&admin=1")],
  ["a parameter that is repeated", (r) => (r.url = "/tool?b=2&a=1&a=2")],
  ["no query", (r) => (r.url = "/tool")],
  ["an empty query", (r) => (r.url = "/tool?")],
  ["a value emptied", (r) => (r.url = "/tool?b=2&a=")],
  ["one byte of the body", (r) => r.body.writeUInt8(r.body[0]! ^ 1)],
  ["no body", (r) => (r.body = Buffer.alloc(0))],
  ["a byte after the body", (r) => (r.body = Buffer.concat([r.body, Buffer.from("x")]))],
];
test.each(CHANGES)("a captured call with %s verifies no more (B45)", async (_, change) => {
  const verify = callVerifier({ gateway: jwksUrl, issuer: ISSUER, origin: url });
  const request = structuredClone(await callOnce());
  request.body = Buffer.from(request.body);
  change(request);
  await expect(verify(request, request.body)).rejects.toThrow();
});

test("a call to one upstream is none to another, and none of another gateway", async () => {
  const request = await callOnce();
  const elsewhere = callVerifier({ gateway: jwksUrl, issuer: ISSUER, origin: "https://bank.example" });
  await expect(elsewhere(request, request.body)).rejects.toThrow(/another request/);
  const other = callVerifier({ gateway: jwksUrl, issuer: "https://other.example", origin: url });
  await expect(other(request, request.body)).rejects.toThrow();
});

test("an upstream refuses a signature whose time is over", async () => {
  proxy.gateway.clock.nowMs = Date.now() - (LIMITS.callSignatureTtlS + 1) * 1000;
  const request = await callOnce();
  const verify = callVerifier({ gateway: jwksUrl, issuer: ISSUER, origin: url });
  await expect(verify(request, request.body)).rejects.toThrow(/exp/);
});

test("what is the same URL to the URL standard is the same call: host case, default port, dot segments (B45)", async () => {
  const same = [
    "https://tools.example/v1/x?q=1",
    "HTTPS://TOOLS.example:443/v1/x?q=1",
    "https://tools.example./v1/./y/../x?q=1",
    "https://tools.example/v1/x?q=1#part",
  ];
  const bound = await Promise.all(same.map((text) => boundUrl(parseUrl(text))));
  expect(new Set(bound.map((one) => JSON.stringify(one))).size).toBe(1);
  expect(bound[0]).toEqual({ htu: "https://tools.example/v1/x", htq: digest("q=1") });

  const different = ["?a=2&a=1", "?a=1&a=2", "?q=%7E", "?q=~", "?q=a+b", "?q=a%20b", "?q=", "?q"];
  const queries = await Promise.all(
    different.map((query) => boundUrl(parseUrl(`https://h.example/${query}`))),
  );
  expect(new Set(queries.map(({ htq }) => htq)).size).toBe(different.length);
});

test.each(["EdDSA", "ES256"] as const)(
  "a stock RFC 9421 library verifies the message signature (%s)",
  async (alg) => {
    const signer = await generateWebCryptoSigner(alg);
    const keys = createKeyRing({ current: signer });
    const target = parseUrl("https://tools.example/run?x=1");
    const signature = await signCall(
      {
        sub: sandbox.lease.lease_id,
        fence: 1,
        seq: 1,
        tool: null,
        htm: "POST",
        ...(await boundUrl(target)),
        content_digest: contentDigest("body"),
        policy_digest: PREV,
        prev: PREV,
      },
      { keys, issuer: ISSUER, nowMs: Date.now() },
    );
    const headers = Object.fromEntries(await signatureFields(signature, target.url, keys));
    const jwk = keys.jwks().keys[0]!;
    const verify = (
      change: (request: { method: string; url: string; headers: Record<string, string> }) => void,
    ) => {
      const request = { method: "POST", url: target.url, headers: { ...headers } };
      change(request);
      return httpbis.verifyMessage(
        {
          requiredFields: ["@method", "@target-uri", "content-digest", "dsec-call-signature"],
          keyLookup: async ({ keyid }) => {
            if (keyid !== jwk.kid) return null;
            const name = { EdDSA: "ed25519", ES256: "ecdsa-p256-sha256" }[alg];
            const key = createPublicKey({ key: jwk, format: "jwk" });
            return { id: jwk.kid, algs: [name], verify: createVerifier(key, name) };
          },
        },
        request,
      );
    };
    expect(await verify(() => {})).toBe(true);
    const changes: ((request: { method: string; url: string; headers: Record<string, string> }) => void)[] = [
      (request) => (request.method = "GET"),
      (request) => (request.url = "https://tools.example/run?x=2"),
      (request) => (request.headers["Content-Digest"] = contentDigest("other")),
      (request) => (request.headers["DSEC-Call-Signature"] += "x"),
    ];
    for (const change of changes) expect(await verify(change)).not.toBe(true);
    expect(await calculateJwkThumbprint(jwk)).toBe(jwk.kid);
  },
);

test("the key directory of message signatures is the gateway's JWK set", async () => {
  const answer = await proxy.gateway.fetch("/.well-known/http-message-signatures-directory");
  expect(answer.headers.get("content-type")).toBe("application/http-message-signatures-directory+json");
  const keys = createLocalJWKSet((await answer.json()) as JSONWebKeySet);
  const { receipt } = await sandbox.call(`${url}/`);
  const { payload } = await jwtVerify(receipt!.receipt, keys, { issuer: ISSUER, typ: "dsec-receipt+jwt" });
  expect(payload).toMatchObject({ call: digest(receipt!.call_signature), status: 200 });
});

test("a signature that was issued first makes exactly one call, with the same members", async () => {
  const head = sandbox.head(`${url}/two?step=1`, { method: "POST", body: "b", head: { tool: "search" } });
  const { call_signature } = await issue(head);
  expect(claimsOf<CallClaims>(call_signature)).toMatchObject({
    htm: "POST",
    htu: `${url}/two`,
    htq: digest("step=1"),
    tool: "search",
    seq: head.seq,
    sub: sandbox.lease.lease_id,
    prev: PREV,
  });
  const answer = await readAnswer(await sandbox.send({ ...head, call_signature }, "b"));
  expect(answer.receipt!.call_signature).toBe(call_signature);
  expect(seen.at(-1)!.headers["dsec-call-signature"]).toBe(call_signature);
  expect(await errorOf({ ...head, call_signature }, "b")).toBe("CALL_REPLAYED");
});

const ALTERED: [what: string, change: (head: CallHead) => void][] = [
  ["seq", (h) => (h.seq += 1_000)],
  ["method", (h) => (h.method = "PUT")],
  ["path", (h) => (h.url = h.url.replace("/two", "/three"))],
  ["query", (h) => (h.url += "&x=1")],
  ["tool", (h) => (h.tool = "other")],
  ["content_digest", (h) => (h.content_digest = contentDigest("c"))],
  ["prev", (h) => (h.prev = digest("x") as typeof h.prev)],
];
test.each(ALTERED)("an issued signature is refused for a call with another %s (B45)", async (_, change) => {
  const head = sandbox.head(`${url}/two?step=1`, { method: "POST", body: "b" });
  const { call_signature } = await issue(head);
  const altered = { ...head, call_signature };
  change(altered);
  const before = seen.length;
  expect(await errorOf(altered, altered.content_digest === head.content_digest ? "b" : "c")).toBe(
    "CALL_SIGNATURE_INVALID",
  );
  expect(seen.length).toBe(before);
});

test("an issued signature is refused once its time is over, and from the future beyond a clock's difference", async () => {
  const head = sandbox.head(`${url}/two`);
  const { call_signature, expires_at } = await issue(head);
  const issuedAtMs = proxy.gateway.clock.nowMs;
  proxy.gateway.clock.nowMs = Date.parse(expires_at);
  expect(await errorOf({ ...head, call_signature })).toBe("CALL_SIGNATURE_EXPIRED");
  proxy.gateway.clock.nowMs = issuedAtMs - (LIMITS.clockLeewayS + 1) * 1000;
  expect(await errorOf({ ...head, call_signature })).toBe("CALL_SIGNATURE_INVALID");
  proxy.gateway.clock.nowMs = issuedAtMs - (LIMITS.clockLeewayS - 1) * 1000;
  expect(await errorOf({ ...head, call_signature })).toBeUndefined();
});

test("a signature of another attempt, key or type, or for longer than we issue, is refused", async () => {
  const head = sandbox.head(`${url}/two`);
  const { call_signature } = await issue(head);
  const claims = claimsOf<CallClaims>(call_signature);
  const { iss: _, jti: __, iat, exp: ___, ...bound } = claims;
  const nowMs = iat * 1000;
  const ours = { keys: proxy.gateway.ports.keys, issuer: ISSUER, nowMs };
  await checkCallSignature(call_signature, bound, ours);
  const refused = async (jws: string, call = bound) =>
    expect(checkCallSignature(jws, call, ours)).rejects.toMatchObject({ code: "CALL_SIGNATURE_INVALID" });
  await refused(call_signature, { ...bound, fence: bound.fence + 1 });
  await refused(call_signature, { ...bound, policy_digest: PREV });
  const stranger = createKeyRing({ current: await generateWebCryptoSigner("EdDSA") });
  await refused((await signCall(bound, { ...ours, keys: stranger })).jws);
  await refused((await signCall(bound, { ...ours, issuer: "https://other.example" })).jws);
  const [header, payload, signature] = call_signature.split(".") as [string, string, string];
  const altered = Buffer.from(
    Buffer.from(payload, "base64url").toString().replace('"seq":', '"seq":1'),
  ).toString("base64url");
  await refused([header, altered, signature].join("."));
  await refused(`${header}.${payload}.`);
  await refused("");
  const none = Buffer.from('{"alg":"none","typ":"dsec-call+jwt","kid":"x"}').toString("base64url");
  await expect(checkCallSignature(`${none}.${payload}.`, bound, ours)).rejects.toMatchObject({
    code: "UNSUPPORTED_ALGORITHM",
  });
  const hmac = await new SignJWT({ ...claims })
    .setProtectedHeader({ alg: "HS256", typ: "dsec-call+jwt", kid: ours.keys.current().kid })
    .sign(new TextEncoder().encode(ours.keys.current().publicJwk.x));
  await expect(checkCallSignature(hmac, bound, ours)).rejects.toMatchObject({
    code: "UNSUPPORTED_ALGORITHM",
  });
});

test("a seq is taken once, whatever form the calls have, also by calls that come at the same moment", async () => {
  const head = sandbox.head(`${url}/once`);
  const codes = await Promise.all(Array.from({ length: 8 }, () => errorOf(head)));
  expect(codes.filter((code) => code === undefined).length).toBe(1);
  expect(codes.filter((code) => code === "CALL_REPLAYED").length).toBe(7);
  await expect(issue(head)).rejects.toThrow(/CALL_REPLAYED/);
});

test("an attempt does not end while a call of it may still get a receipt", async () => {
  const open = await proxy.lease(reach(Number(new URL(url).port)));
  await issue(open.head(`${url}/later`), open);
  const refused = await open.finish([]);
  expect(await refused.json()).toMatchObject({
    error: { code: "EVIDENCE_MISMATCH", message: expect.stringContaining("no receipt yet") },
  });
});

test.each([
  ["call", 0, false],
  ["message", 1, false],
  ["message", 0, true],
] as const)(
  "a call whose %s signature cannot be made is not sent and gives its seq back (after %i, issued: %s)",
  async (_, made, issued) => {
    const open = await proxy.lease(reach(Number(new URL(url).port)));
    const head = open.head(`${url}/unsigned`);
    if (issued) head.call_signature = (await issue(head, open)).call_signature;
    const before = seen.length;
    const signer = proxy.gateway.ports.keys.current();
    const real = signer.sign.bind(signer);
    const signing = vi.spyOn(signer, "sign");
    for (let i = 0; i < made; i++) signing.mockImplementationOnce(real);
    signing.mockRejectedValueOnce(new DsecError("SIGNER_UNAVAILABLE", "the token is gone"));
    expect(await errorOf(head, "", open)).toBe("SIGNER_UNAVAILABLE");
    signing.mockRestore();
    expect(seen.length).toBe(before);

    expect(await errorOf({ ...head, call_signature: null }, "", open)).toBeUndefined();
    expect(seen.length).toBe(before + 1);
    const { jwts } = await open.receipts();
    expect(jwts.length).toBe(1);
    expect((await open.finish(jwts)).status).toBe(200);
  },
);

function issue(head: CallHead, of = sandbox): Promise<{ call_signature: string; expires_at: string }> {
  const { seq, tool, method, content_digest, prev } = head;
  const { lease_id, fence } = of.lease;
  const request = { lease_id, fence, seq, tool, method, url: head.url, content_digest, prev };
  return of.executor.ok("POST", "/v1/calls", request);
}

/** The code of the refusal, or undefined where the call was made. */
async function errorOf(head: object, body = "", of = sandbox): Promise<string | undefined> {
  const response = await of.send(head, body);
  if (response.ok) return void (await readAnswer(response));
  return ((await response.json()) as { error: { code: string } }).error.code;
}
