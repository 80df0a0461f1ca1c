/** One call after another through the whole gateway: what reaches the upstream, and what comes back. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  bodyOf,
  claimsOf,
  digest,
  header,
  openTestProxy,
  reach,
  readAnswer,
  type Sandbox,
  type TestProxy,
} from "./proxy-under-test.ts";

const TEXT = "the same words whatever they were wrapped in\n".repeat(500);
const CODED: Record<string, Buffer> = {
  gzip: gzipSync(TEXT),
  br: brotliCompressSync(TEXT),
  deflate: deflateSync(TEXT),
  // more frames than one are one body (RFC 8878 section 3)
  zstd: Buffer.concat([TEXT.slice(0, 5_000), TEXT.slice(5_000)].map((part) => zstdCompressSync(part))),
  "gzip, br": brotliCompressSync(gzipSync(TEXT)),
};

let proxy: TestProxy;
let sandbox: Sandbox;
let url: string;
const seen: { method: string; url: string; raw: string[]; body: Buffer }[] = [];

const answers: Record<string, (request: IncomingMessage, response: ServerResponse) => void> = {
  "/json": (_, response) => {
    response.setHeader("content-type", "application/json");
    response.end('{"b": 1, "a": {"served_at": "now", "x": [1, 2]}}');
  },
  "/coded": (request, response) => {
    const coding = new URL(request.url!, "http://h").searchParams.get("as")!;
    response.writeHead(200, {
      "content-encoding": coding,
      "content-length": CODED[coding]!.length,
      etag: '"strong"',
      "repr-digest": "sha-256=:AAAA:",
      "content-type": "text/plain",
    });
    response.end(CODED[coding]);
  },
  "/raw-deflate": (_, response) => {
    response.setHeader("content-encoding", "deflate");
    response.end(deflateRawSync(TEXT));
  },
  "/mislabelled": (_, response) => {
    response.setHeader("content-encoding", "gzip");
    response.end("this is plain text");
  },
  "/nothing": (request, response) => {
    const { searchParams } = new URL(request.url!, "http://h");
    response.writeHead(Number(searchParams.get("status")), { "content-encoding": searchParams.get("as")! });
    if (searchParams.has("chunks")) response.flushHeaders();
    response.end();
  },
  "/truncated": (_, response) => {
    response.setHeader("content-encoding", "gzip");
    response.end(CODED.gzip!.subarray(0, 40));
  },
  "/range": (_, response) => {
    response.writeHead(206, { "content-encoding": "gzip", "content-range": "bytes 0-9/100" });
    response.end(CODED.gzip!.subarray(0, 10));
  },
  "/sized": (_, response) => {
    response.setHeader("content-length", "1000");
    response.end("x".repeat(1000));
  },
  "/chunked": (_, response) => {
    response.write("x");
    response.end("y");
  },
  "/utf8-header": (_, response) => {
    const raw = Buffer.from('attachment; filename="发票.pdf"').toString("latin1");
    response.writeHead(200, { "content-disposition": raw, "x-two": ["1", "2"] });
    response.end("pdf");
  },
  "/hops": (_, response) => {
    response.writeHead(200, {
      connection: "keep-alive, x-internal",
      "x-internal": "1",
      "keep-alive": "timeout=5",
      "proxy-authenticate": "Basic",
    });
    response.end("ok");
  },
  "/broken": (_, response) => {
    response.setHeader("content-length", "1000");
    response.write("only this");
    setTimeout(() => response.destroy(), 20);
  },
};

beforeAll(async () => {
  proxy = await openTestProxy();
  const served = await proxy.serve(async (request, response) => {
    const body = await bodyOf(request);
    seen.push({ method: request.method!, url: request.url!, raw: request.rawHeaders, body });
    const answer = answers[request.url!.split("?")[0]!];
    if (answer) answer(request, response);
    else response.end("hello");
  });
  url = served.url;
  sandbox = await proxy.lease(
    reach(served.port, { fingerprints: [{ host: "127.0.0.1", ignore: ["/a/served_at"] }] }),
  );
});
afterAll(() => proxy?.close());

const last = () => seen.at(-1)!;
const sentHeader = (name: string) => {
  const at = last().raw.findIndex((text, i) => i % 2 === 0 && text.toLowerCase() === name);
  return at < 0 ? undefined : last().raw[at + 1];
};

test("a call reaches the upstream as it was meant, and comes back with its receipt", async () => {
  const answer = await sandbox.call(`${url}/echo?q=a%20b&q=2`, {
    method: "POST",
    body: "words",
    headers: [
      ["X-Own", "kept"],
      ["Content-Type", "text/plain"],
    ],
  });
  expect(last()).toMatchObject({ method: "POST", url: "/echo?q=a%20b&q=2" });
  expect(last().body.toString()).toBe("words");
  expect(sentHeader("x-own")).toBe("kept");
  expect(sentHeader("host")).toBe(new URL(url).host);
  expect(sentHeader("content-length")).toBe("5");
  expect(answer.head).toMatchObject({ status: 200, url: `${url}/echo?q=a%20b&q=2`, redirects: [] });
  expect(answer.body.toString()).toBe("hello");
  expect(answer.end).toMatchObject({
    bytes_up: 5,
    bytes_down: 5,
    fingerprint: { body: digest("hello"), json: null },
  });
  const receipt = claimsOf(answer.receipt!.receipt);
  expect(receipt).toMatchObject({
    iss: "https://dsec.example",
    sub: sandbox.lease.lease_id,
    fence: sandbox.lease.fence,
    call: digest(answer.receipt!.call_signature),
    status: 200,
    error: null,
    partial: false,
    opaque: false,
    pinned_dns: true,
  });
});

test("the fingerprint of JSON does not change with member order, white space or what the policy ignores", async () => {
  const answer = await sandbox.call(`${url}/json`);
  expect(answer.end!.fingerprint).toEqual({
    body: digest('{"b": 1, "a": {"served_at": "now", "x": [1, 2]}}'),
    json: digest('{"a":{"x":[1,2]},"b":1}'),
  });
});

test.each(Object.keys(CODED))(
  "a body coded as %s arrives decoded, with headers that fit it (B37)",
  async (as) => {
    const answer = await sandbox.call(`${url}/coded?as=${encodeURIComponent(as)}`);
    expect(answer.body.toString()).toBe(TEXT);
    expect(answer.end!.fingerprint!.body).toBe(digest(TEXT));
    for (const name of ["content-encoding", "content-length", "repr-digest"]) {
      expect(header(answer, name), name).toBeUndefined();
    }
    expect(header(answer, "etag")).toBe('W/"strong"');
  },
);

test("deflate without its zlib wrapper decodes too", async () => {
  expect((await sandbox.call(`${url}/raw-deflate`)).body.toString()).toBe(TEXT);
});

test.each(["/mislabelled", "/truncated"])(
  "%s: what is not coded as it says is an error with a reason (B37)",
  async (path) => {
    const answer = await sandbox.call(`${url}${path}`);
    expect(answer.error).toMatchObject({ code: "RESPONSE_UNDECODABLE" });
    expect(claimsOf(answer.error!.receipt!)).toMatchObject({ error: "RESPONSE_UNDECODABLE" });
    expect(answer.end).toBeUndefined();
  },
);

test.each(["gzip", "br", "zstd", "deflate", "gzip, br"])(
  "no bytes are no body whatever they are labelled with, and %s no fault",
  async (coding) => {
    for (const way of ["status=200", "status=200&chunks", "status=204", "status=304"]) {
      const answer = await sandbox.call(`${url}/nothing?as=${encodeURIComponent(coding)}&${way}`);
      expect(answer.error, way).toBeUndefined();
      expect(answer.head!.status).toBe(Number(way.slice("status=".length, "status=200".length)));
      expect(answer.body.length).toBe(0);
      expect(answer.end!.fingerprint!.body).toBe(digest(""));
    }
  },
);

test("a mislabelled body fails before its head is handed on", async () => {
  expect((await sandbox.call(`${url}/mislabelled`)).head).toBeUndefined();
});

test("part of a coded body stays as it is, headers included (B37)", async () => {
  const answer = await sandbox.call(`${url}/range`, { headers: [["Range", "bytes=0-9"]] });
  expect(sentHeader("accept-encoding")).toBe("identity");
  expect(answer.head!.status).toBe(206);
  expect(header(answer, "content-encoding")).toBe("gzip");
  expect(answer.body).toEqual(CODED.gzip!.subarray(0, 10));
});

test("HEAD has no body and the length that GET would have (B38)", async () => {
  const head = await sandbox.call(`${url}/sized`, { method: "HEAD" });
  expect(header(head, "content-length")).toBe("1000");
  expect(head.body.length).toBe(0);
  const get = await sandbox.call(`${url}/sized`);
  expect(header(get, "content-length")).toBe("1000");
  expect(get.body.length).toBe(1000);
  const chunked = await sandbox.call(`${url}/chunked`, { method: "HEAD" });
  expect(header(chunked, "content-length")).toBeUndefined();
});

test("Expect, hop-by-hop fields and what Connection names never cross (B40)", async () => {
  await sandbox.call(`${url}/echo`, {
    method: "POST",
    body: "x".repeat(2 * 1024 * 1024),
    headers: [
      ["Expect", "100-continue"],
      ["Connection", "x-secret, close"],
      ["X-Secret", "1"],
      ["Keep-Alive", "timeout=5"],
      ["TE", "trailers"],
      ["Proxy-Authorization", "Basic eA=="],
      ["Upgrade", "h2c"],
      ["Transfer-Encoding", "chunked"],
      ["Content-Length", "3"],
      ["Host", "elsewhere.example"],
      ["DSEC-Call-Signature", "forged"],
    ],
  });
  for (const name of [
    "expect",
    "x-secret",
    "keep-alive",
    "te",
    "proxy-authorization",
    "upgrade",
    "transfer-encoding",
  ]) {
    expect(sentHeader(name), name).toBeUndefined();
  }
  expect(sentHeader("content-length")).toBe(String(2 * 1024 * 1024));
  expect(sentHeader("host")).toBe(new URL(url).host);
  expect(sentHeader("dsec-call-signature")).not.toBe("forged");
  expect(last().body.length).toBe(2 * 1024 * 1024);
  const answer = await sandbox.call(`${url}/hops`);
  for (const name of ["connection", "x-internal", "keep-alive", "proxy-authenticate"]) {
    expect(header(answer, name), name).toBeUndefined();
  }
});

test("bytes outside Latin-1 in a header cross unchanged in both directions (B41)", async () => {
  const name = Buffer.from("发票").toString("latin1");
  const answer = await sandbox.call(`${url}/utf8-header`, { headers: [["X-Name", name]] });
  expect(sentHeader("x-name")).toBe(name);
  expect(Buffer.from(header(answer, "content-disposition")!, "latin1").toString()).toBe(
    'attachment; filename="发票.pdf"',
  );
  expect(answer.head!.headers.filter(([given]) => given === "x-two").map(([, value]) => value)).toEqual([
    "1",
    "2",
  ]);
});

test.each([
  ["a line break in a value", [["X-A", "1\r\nX-B: 2"]]],
  ["a character outside Latin-1", [["X-A", "发"]]],
  ["a NUL", [["X-A", "\0"]]],
  ["a space in a name", [["X A", "1"]]],
  ["a colon in a name", [["X-A:", "1"]]],
  ["an empty name", [["", "1"]]],
])("%s is refused before anything is sent (B41)", async (_, headers) => {
  const before = seen.length;
  const refused = await sandbox.refused(`${url}/`, { headers: headers as [string, string][] });
  expect(refused).toMatchObject({ code: "INVALID_REQUEST", status: 400 });
  expect(seen.length).toBe(before);
});

test("an answer that breaks off is told as partial, with what came", async () => {
  const answer = await sandbox.call(`${url}/broken`);
  expect(answer.body.toString()).toBe("only this");
  expect(answer.error).toMatchObject({ code: "UPSTREAM_FAILED", partial: true });
  expect(claimsOf(answer.error!.receipt!)).toMatchObject({
    status: 200,
    partial: true,
    bytes_down: 9,
    fingerprint: { body: digest("only this") },
  });
});

test("a body that is not the one its digest names never arrives whole", async () => {
  const before = seen.length;
  const small = sandbox.head(`${url}/echo`, { method: "POST", body: "right" });
  const response = await sandbox.send(small, "wrong");
  expect(response.status).toBe(422);
  expect(seen.length).toBe(before);

  const large = "x".repeat(3 * 1024 * 1024);
  const head = sandbox.head(`${url}/echo`, { method: "POST", body: large });
  const answer = await readAnswer(await sandbox.send(head, `${large.slice(0, -1)}y`));
  expect(answer.error).toMatchObject({ code: "DIGEST_MISMATCH" });
  expect(seen.slice(before).filter(({ body }) => body.length >= large.length)).toEqual([]);
});

test("the attempt's evidence must name exactly the receipts that the gateway issued", async () => {
  const { jwts, claims } = await sandbox.receipts();
  expect(jwts.length).toBeGreaterThan(10);
  expect(claims.map(({ seq }) => seq)).toEqual(claims.map(({ seq }) => seq).toSorted((a, b) => a - b));
  for (const wrong of [jwts.slice(1), [], jwts.toReversed(), [...jwts, jwts[0]!]]) {
    const refused = await sandbox.finish(wrong);
    expect(await refused.json()).toMatchObject({ error: { code: "EVIDENCE_MISMATCH" } });
  }
  const finished = await sandbox.finish(jwts);
  expect(finished.status).toBe(200);
  expect(await sandbox.refused(`${url}/`)).toMatchObject({ status: 409 });
});
