/** Programs that know nothing of DSec, in a sandbox, against real servers: what is allowed works, what is not says why. */
import { execFileSync } from "node:child_process";
import type { RequestListener } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocketServer } from "ws";
import { shell } from "../../native/sandboxes.ts";
import { EgressUnderTest } from "./egress-under-test.ts";
import { gitBackend, makeRepository } from "./git-server.ts";

let under: EgressUnderTest;
let plain: number;
let secure: number;
let repositories: string;
let wheel: Buffer;

const upstream: RequestListener = (request, response) => {
  const { url = "" } = request;
  if (url.startsWith("/git/")) return gitBackend(repositories)(request, response);
  if (url === "/simple/one/") {
    response.setHeader("content-type", "text/html");
    return void response.end(
      '<!DOCTYPE html><a href="/one-1.0-py3-none-any.whl">one-1.0-py3-none-any.whl</a>',
    );
  }
  if (url.endsWith(".whl")) return void response.end(wheel);
  const parts: Buffer[] = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts);
    const said = { method: request.method, url, host: request.headers.host, bytes: body.length };
    response.setHeader("content-type", "application/json");
    response.end(`${JSON.stringify(said)}\n`);
  });
};

beforeAll(async () => {
  under = await EgressUnderTest.start();
  repositories = makeRepository(under.folder);
  wheel = makeWheel();
  plain = await under.listen(under.plain(upstream));
  const secureServer = under.secure(upstream);
  new WebSocketServer({ server: secureServer, path: "/echo" }).on("connection", (socket) => {
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  secure = await under.listen(secureServer);
});
afterAll(() => under[Symbol.asyncDispose]());

/** The least that pip takes for a package (PEP 427). */
function makeWheel(): Buffer {
  const script = `
import sys, zipfile
with zipfile.ZipFile(sys.stdout.buffer, "w") as wheel:
    wheel.writestr("one.py", "")
    wheel.writestr("one-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: one\\nVersion: 1.0\\n")
    wheel.writestr("one-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("one-1.0.dist-info/RECORD", "")
`;
  return execFileSync("/usr/bin/python3", ["-c", script]);
}

const policy = () => ({
  rules: [
    { host: "tools.test", port: plain, plain_http: true },
    { host: "tools.test", port: secure },
    { host: "git.test", port: secure, methods: ["GET", "POST"], path_prefix: "/git" },
  ],
});

describe("curl", () => {
  test("reaches an allowed host over HTTPS with no option at all, and verifies it", async () => {
    const { stdout, exitCode, calls } = await under.run(
      shell(
        `curl -sS -w '%{http_code} %{ssl_verify_result} %{http_version}\n' https://tools.test:${secure}/a?b=c`,
      ),
      policy(),
    );
    expect(stdout).toBe(
      `{"method":"GET","url":"/a?b=c","host":"tools.test:${secure}","bytes":0}\n200 0 1.1\n`,
    );
    expect(exitCode).toBe(0);
    expect(calls.calls.map(({ method, url }) => `${method} ${url}`)).toEqual([
      `GET https://tools.test:${secure}/a?b=c`,
    ]);
  });

  test("reaches an allowed host over plain HTTP", async () => {
    const { stdout } = await under.run(shell(`curl -sS http://tools.test:${plain}/x`), policy());
    expect(JSON.parse(stdout)).toEqual({ method: "GET", url: "/x", host: `tools.test:${plain}`, bytes: 0 });
  });

  test("uploads 2 MiB with Expect: 100-continue and is told to go on at once (B40)", async () => {
    const script = `head -c 2097152 /dev/zero > body
      curl -sS -v -H 'Expect: 100-continue' --expect100-timeout 20 --data-binary @body https://tools.test:${secure}/up`;
    const { stdout, stderr, calls } = await under.run(shell(script), policy());
    expect(JSON.parse(stdout)).toMatchObject({ method: "POST", bytes: 2_097_152 });
    expect(stderr).toContain("< HTTP/1.1 100 Continue");
    expect(stderr).not.toContain("Done waiting for 100-continue");
    expect(calls.bodies.map((body) => body.length)).toEqual([2_097_152]);
  });

  test("is told by a 403 and the error JSON what the policy refuses, plain and secure", async () => {
    const script = `for url in http://other.test/ http://tools.test:${plain + 1}/ ; do curl -sS -w '%{http_code}\n' $url; done
      curl -sS https://other.test/ ; echo "exit $?"`;
    const { stdout, stderr, calls } = await under.run(shell(script), policy());
    expect(stdout).toMatch(
      /"code":"DOMAIN_NOT_ALLOWED".*\n403\n.*"code":"PORT_NOT_ALLOWED".*\n403\nexit 56\n/,
    );
    expect(stderr).toContain("CONNECT tunnel failed, response 403");
    expect(calls.calls).toEqual([]);
    expect(calls.denials.map(({ code }) => code)).toEqual([
      "DOMAIN_NOT_ALLOWED",
      "PORT_NOT_ALLOWED",
      "DOMAIN_NOT_ALLOWED",
    ]);
  });

  test("has no way around the proxy", async () => {
    const script = `curl -sS --noproxy '*' http://127.0.0.1:${plain}/ ; echo $?
      curl -sS --noproxy '*' --resolve tools.test:${secure}:127.0.0.1 https://tools.test:${secure}/ ; echo $?`;
    const { stdout } = await under.run(shell(script), policy());
    expect(stdout).toBe("7\n7\n"); // CURLE_COULDNT_CONNECT
  });
});

describe("other programs", () => {
  test("Python's urllib reads HTTPS and HTTP, and posts", async () => {
    const script = `
import json, urllib.error, urllib.request
for url, data in (("https://tools.test:${secure}/py", None), ("http://tools.test:${plain}/py", b"x" * 70000)):
    with urllib.request.urlopen(url, data) as answer:
        print(answer.status, json.load(answer)["bytes"])
try: urllib.request.urlopen("http://other.test/", b"x" * 1000000)
except urllib.error.HTTPError as error: print(error.code, json.load(error)["error"]["code"])
`;
    const { stdout, stderr } = await under.run(["/usr/bin/python3", "-c", script], policy());
    expect(stderr).toBe("");
    expect(stdout).toBe("200 0\n200 70000\n403 DOMAIN_NOT_ALLOWED\n");
  });

  test("pip installs from an index over HTTPS, and requests (as pip brings it) reads", async () => {
    const script = `cd /tmp && pip download -q --disable-pip-version-check --no-deps --index-url https://tools.test:${secure}/simple one && ls *.whl
      /usr/bin/python3 -c 'from pip._vendor import requests; print(requests.get("https://tools.test:${secure}/r").json()["url"])'`;
    const { stdout, stderr } = await under.run(shell(script), policy());
    expect(stderr).toBe("");
    expect(stdout).toBe("one-1.0-py3-none-any.whl\n/r\n");
  });

  test("git clones over HTTPS, and is refused outside of its path", async () => {
    const script = `git clone -q https://git.test:${secure}/git/one.git here && cat here/README && wc -c < here/large
      git ls-remote https://git.test:${secure}/elsewhere.git; echo "exit $?"`;
    const { stdout, stderr, calls } = await under.run(shell(script), policy());
    expect(stdout).toBe("cloned through the loopback proxy\n3000000\nexit 128\n");
    expect(stderr).toContain("403");
    expect(calls.calls.map(({ method }) => method)).toEqual(["GET", "POST", "POST"]);
    expect(calls.denials.map(({ code }) => code)).toEqual(["PATH_NOT_ALLOWED"]);
  });

  test("a WebSocket client in Python speaks through CONNECT to wss:", async () => {
    const { stdout, stderr, calls } = await under.run(
      ["/usr/bin/python3", "-c", websocketClient(secure)],
      policy(),
    );
    expect(stderr).toBe("");
    expect(stdout).toBe("HTTP/1.1 101 Switching Protocols\nhello through the proxy\n");
    expect(calls.calls.map(({ url }) => url)).toEqual([`https://tools.test:${secure}/echo`]);
  });
});

/** RFC 6455 by hand, for the sandbox has no WebSocket library: one masked text frame, one answer. */
const websocketClient = (port: number) => `
import os, socket, ssl
raw = socket.create_connection(("127.0.0.1", 3128))
raw.sendall(b"CONNECT tools.test:${port} HTTP/1.1\\r\\nHost: tools.test:${port}\\r\\n\\r\\n")
assert b" 200 " in raw.recv(1000)
s = ssl.create_default_context().wrap_socket(raw, server_hostname="tools.test")
s.sendall(b"GET /echo HTTP/1.1\\r\\nHost: tools.test:${port}\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
          b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n")
head = b""
while not head.endswith(b"\\r\\n\\r\\n"): head += s.recv(1)
print(head.split(b"\\r\\n")[0].decode())
text, mask = b"hello through the proxy", os.urandom(4)
s.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(c ^ mask[i % 4] for i, c in enumerate(text)))
answer = b""
while len(answer) < 2 + len(text): answer += s.recv(100)
print(answer[2:].decode())
`;
