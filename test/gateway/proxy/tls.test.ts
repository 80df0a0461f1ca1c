/** HTTPS upstreams: the pinned address never costs the name's own certificate check. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { selfSigned } from "#test/support/certificate.ts";
import { LOOPBACK, openTestProxy, type Sandbox, type TestProxy } from "./proxy-under-test.ts";

const good = selfSigned("good.test");
const stranger = selfSigned("good.test");
let proxy: TestProxy;
let sandbox: Sandbox;
let goodPort: number;
let strangerPort: number;
const names: string[] = [];

beforeAll(async () => {
  proxy = await openTestProxy({ ca: good.cert });
  goodPort = (
    await proxy.serve((request, response) => {
      names.push((request.socket as unknown as { servername: string }).servername);
      response.end("over TLS");
    }, good)
  ).port;
  strangerPort = (await proxy.serve((_, response) => response.end("impostor"), stranger)).port;
  for (const name of ["good.test", "other.test"]) proxy.names.set(name, ["127.0.0.1"]);
  const rule = (host: string, port: number) => ({ host, port, allow_private: LOOPBACK });
  sandbox = await proxy.lease({
    rules: [
      rule("good.test", goodPort),
      rule("good.test", strangerPort),
      rule("other.test", goodPort),
      rule("127.0.0.1", goodPort),
    ],
  });
});
afterAll(() => proxy?.close());

test("the connection goes to the checked address with the name's own TLS name (B33)", async () => {
  const answer = await sandbox.call(`https://good.test:${goodPort}/`);
  expect(answer.body.toString()).toBe("over TLS");
  expect(names).toEqual(["good.test"]);
});

test.each([
  ["of another name", () => `https://other.test:${goodPort}/`],
  ["that nobody vouches for", () => `https://good.test:${strangerPort}/`],
  ["that does not name the address", () => `https://127.0.0.1:${goodPort}/`],
])("a certificate %s ends the call before anything is sent", async (_, url) => {
  const answer = await sandbox.call(url());
  expect(answer.error).toMatchObject({ code: "UPSTREAM_UNREACHABLE", receipt: expect.any(String) });
  expect(names).toEqual(["good.test"]);
});
