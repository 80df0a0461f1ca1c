/** What programs that follow redirects and undo codings by themselves get: each answer as its upstream sent it. */

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import type { IncomingMessage, RequestListener } from "node:http";
import { join } from "node:path";
import { brotliCompressSync, gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type ReceiptClaims, ReceiptClaimsSchema } from "#core/wire/calls.ts";
import type { PolicyRequest } from "#core/wire/policy.ts";
import { pinnedUpstream } from "#gateway/node/pinned-fetch.ts";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import { openTestGateway, type TestGateway } from "#test/gateway/gateway-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";
import { type Finished, Rig } from "../executor-under-test.ts";
import { EgressUnderTest } from "./egress-under-test.ts";
import { gitBackend, makeRepository } from "./git-server.ts";

const LOOPBACK = ["127.0.0.0/8"];
const TEXT = Buffer.from("what the upstream says, again and again; ".repeat(2_000));
const CODED = { gzip: gzipSync(TEXT), br: brotliCompressSync(TEXT), zstd: zstdCompressSync(TEXT) };
const latin1 = (text: string) => Buffer.from(text).toString("latin1");
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

let upstreams: EgressUnderTest;
let gateway: TestGateway;
let running: RunningGateway;
let rig: Rig;
let repositories: string;
let http: string;
let https: string;
let ports: { plain: number; secure: number };
let seen: { request: IncomingMessage; body: string }[];

/** An answer written by hand, so that its bytes are these. */
function raw(request: IncomingMessage, status: string, fields: string[], body = ""): void {
  const head = [
    `HTTP/1.1 ${status}`,
    ...fields,
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
  ];
  request.socket.end(`${head.join("\r\n")}\r\n\r\n${body}`, "latin1");
}

const upstream: RequestListener = async (request, response) => {
  const { pathname, search } = new URL(request.url!, "http://h");
  if (pathname.startsWith("/git/renamed.git")) {
    response.writeHead(301, {
      location: `/git/one.git${pathname.slice("/git/renamed.git".length)}${search}`,
    });
    return void response.end();
  }
  if (pathname.startsWith("/git/")) return gitBackend(repositories)(request, response);
  let body = "";
  for await (const part of request) body += part;
  seen.push({ request, body });
  const moved = /^\/(301|302|303|307|308)$/.exec(pathname)?.[1];
  if (moved !== undefined) {
    response.writeHead(Number(moved), {
      location: "/final?x=1",
      "set-cookie": [`hop=${moved}`, "b=2; Path=/"],
    });
    return void response.end(`moved by ${moved}\n`);
  }
  switch (pathname) {
    case "/login":
      response.writeHead(302, { "set-cookie": "session=s3; Path=/; HttpOnly", location: "account/" });
      return void response.end();
    case "/account/":
      if (!/session=s3/.test(request.headers.cookie ?? ""))
        return void response.writeHead(401).end("not logged in\n");
      return void response.end("logged in\n");
    case "/utf-8":
      return raw(request, "302 Found", [`Location: /${latin1("发票/café")}`]);
    case "/latin-1":
      return raw(request, "302 Found", ["Location: /caf\xe9?q=\xe9"]);
    case "/two-places":
      return raw(request, "302 Found", ["Location: /final", "Location: /other"], "choose\n");
    case "/denied":
      return void response.writeHead(302, { location: "http://denied.test/" }).end();
    case "/loop":
      return void response.writeHead(302, { location: "/loop" }).end();
    case "/old-index/one/":
      return void response.writeHead(301, { location: "/index/one/" }).end();
    case "/index/one/":
      response.setHeader("content-type", "text/html");
      return void response.end(
        '<!DOCTYPE html><a href="../one-1.0-py3-none-any.whl">one-1.0-py3-none-any.whl</a>',
      );
    case "/index/one-1.0-py3-none-any.whl":
      return void response.end(WHEEL);
    case "/gzip":
    case "/br":
    case "/zstd": {
      const coding = pathname.slice(1) as keyof typeof CODED;
      response.writeHead(200, {
        "content-encoding": coding,
        "content-length": CODED[coding].length,
        etag: '"strong"',
        "repr-digest": `sha-256=:${createHash("sha256").update(CODED[coding]).digest("base64")}:`,
      });
      return void response.end(CODED[coding]);
    }
    case "/bomb":
      response.writeHead(200, { "content-encoding": "gzip" });
      return void response.end(BOMB);
    case "/mislabelled":
      response.writeHead(200, { "content-encoding": "gzip" });
      return void response.end("this is no gzip\n");
    case "/large":
      response.writeHead(200, { "content-length": LARGE_BYTES });
      return void response.end(request.method === "HEAD" ? undefined : Buffer.alloc(LARGE_BYTES));
    default: {
      const { method, url, headers } = request;
      return void response.end(`${method} ${url} ${headers["accept-encoding"] ?? "-"} ${body}\n`);
    }
  }
};
const BOMB = gzipSync(Buffer.alloc(32 * 1024 * 1024));
const LARGE_BYTES = 1_000_001;
const BOUND_BYTES = 1_000_000;
/** The least that pip takes for a package (PEP 427). */
const WHEEL = execFileSync("/usr/bin/python3", [
  "-c",
  `
import sys, zipfile
with zipfile.ZipFile(sys.stdout.buffer, "w") as wheel:
    wheel.writestr("one.py", "")
    wheel.writestr("one-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: one\\nVersion: 1.0\\n")
    wheel.writestr("one-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("one-1.0.dist-info/RECORD", "")
`,
]);

beforeAll(async () => {
  upstreams = await EgressUnderTest.start();
  repositories = makeRepository(upstreams.folder);
  execFileSync("git", ["-C", join(repositories, "one.git"), "config", "http.receivepack", "true"]);
  ports = {
    plain: await upstreams.listen(upstreams.plain(upstream)),
    secure: await upstreams.listen(upstreams.secure(upstream)),
  };
  http = `http://tools.test:${ports.plain}`;
  https = `https://tools.test:${ports.secure}`;
  const resolve = async (name: string) => (name.endsWith(".test") ? ["127.0.0.1"] : []);
  const sending = pinnedUpstream({ resolve, ca: upstreams.upstreamAuthority.certificate });
  gateway = await openTestGateway({ privateNetworks: LOOPBACK, parts: { upstream: sending } });
  running = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
  rig = await Rig.open(gateway);
  await rig.start({ gatewayUrl: running.url, fetch: (request) => fetch(request) });
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await running?.close();
  await gateway?.close();
  await upstreams?.[Symbol.asyncDispose]();
});
beforeEach(() => {
  seen = [];
});

const policy = (more: Partial<PolicyRequest> = {}): PolicyRequest => ({
  rules: [
    { host: "tools.test", port: ports.plain, plain_http: true, allow_private: LOOPBACK },
    { host: "tools.test", port: ports.secure, allow_private: LOOPBACK },
    {
      host: "paths.test",
      port: ports.plain,
      plain_http: true,
      allow_private: LOOPBACK,
      path_prefix: "/caf%C3%A9",
    },
  ],
  ...more,
});

type Ran = Finished & { out: string; err: string };

async function sh(script: string, more: Partial<PolicyRequest> = {}): Promise<Ran> {
  const finished = await rig.sh(script, { policy: policy(more) });
  return { ...finished, out: finished.stdout.toString("latin1"), err: finished.stderr.toString("latin1") };
}

async function receiptsOf({ task }: Finished): Promise<ReceiptClaims[]> {
  const { items } = await rig.client.ok<{ items: { receipt: string }[] }>(
    "GET",
    `/v1/tasks/${task.id}/receipts`,
  );
  const claims = items.map(({ receipt }) =>
    JSON.parse(Buffer.from(receipt.split(".")[1]!, "base64url").toString()),
  );
  return claims.map((claim) => ReceiptClaimsSchema.parse(claim));
}

async function eventsOf({ task }: Finished) {
  const response = await rig.client.send("GET", `/v1/tasks/${task.id}/trace`);
  return (await readTrace(new Uint8Array(await response.arrayBuffer()))).events;
}

describe("redirects are the program's to follow", () => {
  test.each([301, 302, 303, 307, 308])(
    "a %d comes with its Location, its cookies and its body",
    async (status) => {
      const { out } = await sh(`curl -sS -i --suppress-connect-headers ${https}/${status}`);
      expect(out).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(out).toContain("location: /final?x=1\r\n");
      expect(out).toContain(`set-cookie: hop=${status}\r\nset-cookie: b=2; Path=/\r\n`);
      expect(out).toMatch(new RegExp(`\r\n\r\nmoved by ${status}\n$`));
      expect(seen.map(({ request }) => request.url)).toEqual([`/${status}`]);
    },
  );

  test("curl follows by itself and knows where it came to; every hop is a call with its receipt and its events", async () => {
    const finished = await sh(`curl -sS -L -w '%{num_redirects} %{url_effective}\n' ${https}/302`);
    expect(finished.out).toBe(`GET /final?x=1 - \n1 ${https}/final?x=1\n`);
    const receipts = await receiptsOf(finished);
    expect(receipts.map(({ seq, status, url, redirects }) => ({ seq, status, url, redirects }))).toEqual([
      { seq: 1, status: 302, url: `${https}/302`, redirects: [] },
      { seq: 2, status: 200, url: `${https}/final?x=1`, redirects: [] },
    ]);
    expect(receipts[0]!.fingerprint!.body).toBe(`sha256:${sha256(Buffer.from("moved by 302\n"))}`);
    const events = await eventsOf(finished);
    const ends = events.filter((event) => event.type === "tool_call_end");
    expect(ends.map(({ state, status, call_seq }) => [state, status, call_seq])).toEqual([
      ["answered", 302, 1],
      ["answered", 200, 2],
    ]);
    // each hop was signed for itself
    const signatures = seen.map(({ request }) => String(request.headers["dsec-call-signature"]));
    const bound = signatures.map((jws) =>
      JSON.parse(Buffer.from(jws.split(".")[1]!, "base64url").toString()),
    );
    expect(bound.map(({ seq, htu }) => [seq, htu])).toEqual([
      [1, `${https}/302`],
      [2, `${https}/final`],
    ]);
  });

  test("a POST stays one at 307 and 308 with its body, and becomes a GET at 303, as curl does it", async () => {
    const { out } = await sh(`for status in 307 308 303; do curl -sS -L -d words ${http}/$status; done`);
    expect(out).toBe("POST /final?x=1 - words\nPOST /final?x=1 - words\nGET /final?x=1 - \n");
    expect(seen.map(({ request, body }) => `${request.method} ${request.url} ${body}`)).toEqual([
      ...["POST /307 words", "POST /final?x=1 words", "POST /308 words", "POST /final?x=1 words"],
      ...["POST /303 words", "GET /final?x=1 "],
    ]);
  });

  test("a 307 for a body that is too large to keep is followed too, for the program has it", async () => {
    const { out } = await sh(
      `head -c 600000 /dev/zero | tr '\\0' x > body; curl -sS -L --data-binary @body ${http}/307 | wc -c`,
    );
    expect(out.trim()).toBe(String("POST /final?x=1 - \n".length + 600_000));
  });

  test("a login that redirects leaves curl, Python and wget logged in", async () => {
    const python = `
import http.cookiejar, urllib.request
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
answer = opener.open("${https}/login", b"user=me")
print(answer.geturl(), answer.read().decode(), end="")`;
    const { out, err } = await sh(`
      curl -sS -L -c jar -b jar -d user=me -w '%{url_effective}\n' ${https}/login
      /usr/bin/python3 -c '${python}'
      wget -q -O- --post-data user=me ${https}/login --ca-certificate=/run/dsec/ca.pem`);
    expect(err).toBe("");
    expect(out).toBe(`logged in\n${https}/account/\n${https}/account/ logged in\nlogged in\n`);
  });

  test("git clones, fetches and pushes by the old name of a renamed repository", async () => {
    const { out, err } = await sh(`
      export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t.test GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t.test
      git clone -q ${https}/git/renamed.git here && cd here && cat README
      git -c http.followRedirects=true fetch -q && echo fetched
      echo more > more && git add more && git commit -q -m more
      git push -q origin HEAD:refs/heads/more && git ls-remote --heads origin more | wc -l`);
    expect(err).toMatch(/^(warning: redirecting to [^\n]*\n)*$/);
    expect(out).toBe("cloned through the loopback proxy\nfetched\n1\n");
  });

  test("pip installs from an index that has moved, whose links are relative to where it is now", async () => {
    const { out, err } = await sh(
      `cd /tmp && pip download -q --disable-pip-version-check --no-deps --index-url ${https}/old-index one && ls *.whl`,
    );
    expect(err).toBe("");
    expect(out).toBe("one-1.0-py3-none-any.whl\n");
  });

  test("each hop is judged by itself: one that the policy forbids is refused, and the program is told so", async () => {
    const finished = await sh(`curl -sS -L -w '%{http_code} %{num_redirects}\n' ${http}/denied`);
    expect(finished.out).toMatch(/"code":"DOMAIN_NOT_ALLOWED".*\n403 1\n$/);
    expect(await receiptsOf(finished)).toMatchObject([{ status: 302, error: null }]);
    const errors = (await eventsOf(finished)).filter((event) => event.type === "error");
    expect(errors).toMatchObject([{ code: "DOMAIN_NOT_ALLOWED", url: "http://denied.test:80" }]);
  });

  test("a loop is the program's to end, and the budget's", async () => {
    const { out, err } = await sh(`curl -sS -L --max-redirs 3 ${http}/loop; echo "exit $?"`);
    expect(out).toBe("exit 47\n"); // CURLE_TOO_MANY_REDIRECTS
    expect(err).toContain("Maximum (3) redirects followed");
    seen = [];
    const budget = await sh(`curl -sS -L -w '%{http_code}\n' ${http}/loop`, { budgets: { calls: 4 } });
    expect(budget.out).toMatch(/"code":"BUDGET_EXHAUSTED".*\n429\n$/);
    expect(seen).toHaveLength(4);
  });

  test("an answer with two Locations is the program's to make sense of", async () => {
    const { out } = await sh(`curl -sS -i --suppress-connect-headers ${http}/two-places`);
    expect(out).toMatch(/Location: \/final\r\nLocation: \/other\r\n/);
    expect(out).toMatch(/choose\n$/);
  });

  test("api-call still follows for the agent, hop by hop and judged", async () => {
    const { out } = await sh(
      `dsec-tool api-call --url ${https}/302; echo; dsec-tool api-call --url ${http}/denied`,
    );
    expect(out).toContain("GET /final?x=1 gzip, br, zstd");
    expect(out + (await sh(`dsec-tool api-call --url ${http}/denied 2>&1`)).out).toContain(
      "DOMAIN_NOT_ALLOWED",
    );
  });
});

describe("bytes outside ASCII in URLs", () => {
  test("a Location comes through byte for byte, and curl follows it to where it leads", async () => {
    const { out } = await sh(
      `curl -sS -i --suppress-connect-headers ${http}/utf-8; curl -sS -i --suppress-connect-headers ${https}/latin-1; curl -sS -L ${http}/utf-8 ${https}/latin-1`,
    );
    expect(out).toContain(`Location: /${latin1("发票/café")}\r\n`);
    expect(out).toContain("Location: /caf\xe9?q=\xe9\r\n");
    expect(out.toLowerCase()).toContain("get /%e5%8f%91%e7%a5%a8/caf%c3%a9 -");
    expect(out.toLowerCase()).toContain("get /caf%e9?q=%e9 -");
  });

  test("one that the gateway follows for the agent is read as the bytes it is, once", async () => {
    const { out } = await sh(
      `dsec-tool api-call --url ${http}/utf-8; dsec-tool api-call --url ${http}/latin-1`,
    );
    expect(out).toContain("GET /%E5%8F%91%E7%A5%A8/caf%C3%A9 ");
    expect(out).toContain("GET /caf%E9?q=%E9 ");
  });

  test("a path with raw UTF-8 or other bytes is asked for, plain and in TLS, and judged as its escapes are", async () => {
    const finished = await sh(`
      curl -sS ${http}/café?q=発 ${https}/café?q=発
      curl -sS "${http}/$(printf 'caf\\351')" "${https}/$(printf 'caf\\351')"
      curl -sS -o /dev/null -w '%{http_code}\n' http://paths.test:${ports.plain}/café/menu
      curl -sS http://paths.test:${ports.plain}/cafe/menu`);
    // curl escapes some of them by itself, in lower case
    const utf8 = "get /caf%c3%a9?q=%e7%99%ba - \n";
    const other = "get /caf%e9 - \n";
    expect(finished.out.toLowerCase()).toContain(`${utf8}${utf8}${other}${other}200\n`);
    expect(finished.out).toContain('"code":"PATH_NOT_ALLOWED"');
  });
});

describe("content codings are the program's to undo", () => {
  test("Accept-Encoding goes upstream as it was sent, and not at all where none was", async () => {
    const { out } = await sh(`
      curl -sS ${https}/plain
      curl -sS -H 'Accept-Encoding: gzip;q=0.5, x-own' ${https}/cloud
      curl -sS -H 'Accept-Encoding: identity' ${http}/cloud
      curl -sS -H 'Accept-Encoding: gzip' -H 'Range: bytes=0-1' ${http}/range`);
    expect(out).toBe(
      "GET /plain - \nGET /cloud gzip;q=0.5, x-own \nGET /cloud identity \nGET /range gzip \n",
    );
  });

  test.each(["gzip", "br", "zstd"] as const)(
    "a body in %s comes as it was sent, with its own head, and its receipt has the decoded one",
    async (coding) => {
      const finished = await sh(`curl -sS -D head -o body ${https}/${coding}; sha256sum < body; cat head`);
      expect(finished.out).toContain(sha256(CODED[coding]));
      expect(finished.out).toContain(`content-encoding: ${coding}\r\n`);
      expect(finished.out).toContain(`content-length: ${CODED[coding].length}\r\n`);
      expect(finished.out).toContain('etag: "strong"\r\n');
      expect(finished.out).toContain("repr-digest: ");
      const [receipt] = await receiptsOf(finished);
      expect(receipt).toMatchObject({
        ...{ status: 200, error: null, partial: false, bytes_down: TEXT.length },
        fingerprint: { body: `sha256:${sha256(TEXT)}` },
      });
    },
  );

  test("curl --compressed and Python's requests decode by themselves", async () => {
    const { out, err } = await sh(`
      curl -sS --compressed ${https}/gzip | sha256sum
      /usr/bin/python3 -c 'import hashlib; from pip._vendor import requests; answer = requests.get("${https}/gzip"); print(answer.headers["content-encoding"], hashlib.sha256(answer.content).hexdigest())'`);
    expect(err).toBe("");
    expect(out).toBe(`${sha256(TEXT)}  -\ngzip ${sha256(TEXT)}\n`);
  });

  test("a bomb ends its call by the bound on what it decodes to, and its client has no whole answer", async () => {
    const finished = await sh(`curl -sS -f -o body ${http}/bomb; echo "exit $?"`, {
      response_bytes_max: BOUND_BYTES,
    });
    expect(finished.out).not.toContain("exit 0");
    const [receipt] = await receiptsOf(finished);
    expect(receipt).toMatchObject({ error: "RESPONSE_TOO_LARGE", partial: true });
    expect(receipt!.bytes_down).toBeLessThanOrEqual(BOUND_BYTES);
  });

  test("a body that is not in the coding of its label is refused before its head, by its code", async () => {
    const { out } = await sh(`curl -sS -w '%{http_code}\n' ${http}/mislabelled`);
    expect(out).toMatch(/"code":"RESPONSE_UNDECODABLE".*\n502\n$/);
  });
});

describe("a download whose length is known", () => {
  test("is refused at once where it is larger than the policy allows: no byte of it, and a message with both numbers", async () => {
    const finished = await sh(
      `curl -sS -i --suppress-connect-headers ${https}/large; echo; curl -sS -f -o body ${http}/large; echo "exit $?"; ls body 2>/dev/null`,
      { response_bytes_max: BOUND_BYTES },
    );
    expect(finished.out).toMatch(/^HTTP\/1.1 502 /);
    expect(finished.out).toContain(
      'Proxy-Status: dsec; error=http_response_body_size; details="RESPONSE_TOO_LARGE"',
    );
    const [, body] = /\r\n\r\n(\{.*\})\n/.exec(finished.out)!;
    const { error } = JSON.parse(body!) as { error: { code: string; message: string } };
    expect(error.code).toBe("RESPONSE_TOO_LARGE");
    for (const part of ["1000001", "1000000", "response_bytes_max", "tools.test"])
      expect(error.message).toContain(part);
    expect(finished.out).toMatch(/\nexit 22\n$/); // curl -f on a 502, and no file was begun
    expect(await receiptsOf(finished)).toMatchObject([
      { error: "RESPONSE_TOO_LARGE", bytes_down: 0 },
      { error: "RESPONSE_TOO_LARGE", bytes_down: 0 },
    ]);
  });

  test("is told by HEAD as it is, and comes whole where it just fits", async () => {
    const { out } = await sh(`curl -sS -I ${http}/large; curl -sS ${http}/large | wc -c`, {
      response_bytes_max: LARGE_BYTES,
    });
    expect(out).toMatch(/content-length: 1000001\r\n/);
    expect(out).toMatch(/\n1000001\n$/);
    const head = await sh(`curl -sS -I ${http}/large`, { response_bytes_max: 10 });
    expect(head.out).toMatch(/^HTTP\/1.1 200 [\s\S]*content-length: 1000001\r\n/);
  });
});
