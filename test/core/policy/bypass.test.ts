import { describe, expect, test } from "vitest";
import type { ErrorCode } from "#core/errors.ts";
import { compilePolicy, loadPolicy } from "#core/policy/compile.ts";
import { type Allowed, auditFields, decide, decideAddresses } from "#core/policy/decide.ts";

/**
 * Ways around the allowlist that were found in other gateways. Nothing here resolves a name or opens a socket: a
 * decision is a function of text, and the answers of name servers are written down as text too.
 */
const policy = compilePolicy(
  loadPolicy({
    rules: [
      { host: "trusted.test" },
      { host: "*.wild.test" },
      { host: "api.test", methods: ["GET", "POST"], path_prefix: "/v1" },
      { host: "bücher.test" },
      { host: "*.faß.test" },
      { host: "plain.test", plain_http: true },
      { host: "port.test", port: 8443 },
      { host: "127.0.0.9", port: 9000, plain_http: true, allow_private: ["127.0.0.9"] },
      { host: "10.0.0.1", plain_http: true },
      { host: "93.184.216.34", plain_http: true },
      { host: "onprem.test", allow_private: ["10.20.0.0/16", "fd00:20::/32"] },
    ],
  }),
);

type Row = [url: string, code: ErrorCode | "allowed", method?: string];

const outcome = (url: string, method = "GET"): string => {
  const decision = decide(policy, { method, url });
  return decision.allowed ? "allowed" : decision.code;
};

function table(name: string, rows: Row[]): void {
  describe(name, () => {
    test.each(rows)("%j is %s", (url, code, method) => {
      expect(outcome(url, method)).toBe(code);
    });
  });
}

table("B26: every spelling of an address is that address", [
  ["http://127.0.0.1/", "ADDRESS_NOT_ALLOWED"],
  ["http://127.1/", "ADDRESS_NOT_ALLOWED"],
  ["http://127.0.1/", "ADDRESS_NOT_ALLOWED"],
  ["http://2130706433/", "ADDRESS_NOT_ALLOWED"],
  ["http://017700000001/", "ADDRESS_NOT_ALLOWED"],
  ["http://0x7f000001/", "ADDRESS_NOT_ALLOWED"],
  ["http://0x7F.0x0.0x0.0x1/", "ADDRESS_NOT_ALLOWED"],
  ["http://0177.0.0.01/", "ADDRESS_NOT_ALLOWED"],
  ["http://127.0.0.1./", "ADDRESS_NOT_ALLOWED"],
  ["http://0/", "ADDRESS_NOT_ALLOWED"],
  ["http://0x/", "ADDRESS_NOT_ALLOWED"],
  ["http://0.0.0.0/", "ADDRESS_NOT_ALLOWED"],
  ["http://127.0.0.2:9000/", "ADDRESS_NOT_ALLOWED"],
  ["http://１２７.０.０.１/", "ADDRESS_NOT_ALLOWED"],
  ["http://127。0．0｡1/", "ADDRESS_NOT_ALLOWED"],
  ["http://①②⑦.0.0.1/", "ADDRESS_NOT_ALLOWED"],
  ["http://169.254.169.254/latest/meta-data/", "ADDRESS_NOT_ALLOWED"],
  ["http://0xa9fea9fe/", "ADDRESS_NOT_ALLOWED"],
  ["http://2852039166/", "ADDRESS_NOT_ALLOWED"],
  ["http://100.100.100.200/", "ADDRESS_NOT_ALLOWED"],
  ["http://168.63.129.16/", "ADDRESS_NOT_ALLOWED"],
  ["http://10.0.0.1/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[0:0:0:0:0:0:0:1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::ffff:127.0.0.1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::ffff:7f00:1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[0:0:0:0:0:FFFF:127.0.0.1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::ffff:a9fe:a9fe]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::ffff:10.0.0.1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[::127.0.0.1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[64:ff9b::127.0.0.1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[64:ff9b:1::127.0.0.1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[2002:7f00:1::]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[2600::5efe:127.0.0.1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[fe80::1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[fd00:ec2::254]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[ff02::1]/", "ADDRESS_NOT_ALLOWED"],
  ["http://[fe80::1%25lo]/", "HOST_INVALID"],
  ["http://[::1%lo]/", "HOST_INVALID"],
  ["http://[::1/", "URL_INVALID"],
  ["http://::1/", "URL_INVALID"],
  ["http://[v1.fe80]/", "HOST_INVALID"],
  ["http://1.2.3.4.5/", "HOST_INVALID"],
  ["http://256.256.256.256/", "HOST_INVALID"],
  ["http://0300.0250.0.0.1/", "HOST_INVALID"],
  ["http://93.184.216.34/", "allowed"],
  ["http://[::ffff:93.184.216.34]/", "allowed"],
  ["http://1572395042/", "allowed"],
  ["http://93.184.216.35/", "DOMAIN_NOT_ALLOWED"],
  ["http://[2600::1]/", "DOMAIN_NOT_ALLOWED"],
  ["http://127.0.0.9:9000/", "allowed"],
  ["http://0x7f.9:9000/", "allowed"],
  ["http://[::ffff:127.0.0.9]:9000/", "allowed"],
  ["http://[::1]:9000/", "ADDRESS_NOT_ALLOWED"],
  ["http://127.0.0.9:9001/", "PORT_NOT_ALLOWED"],
]);

table("B28: the root dot changes nothing, two dots are no host", [
  ["https://trusted.test./", "allowed"],
  ["https://TRUSTED.test./", "allowed"],
  ["https://trusted.test。/", "allowed"],
  ["https://trusted.test../", "HOST_INVALID"],
  ["https://trusted..test/", "HOST_INVALID"],
  ["https://.trusted.test/", "HOST_INVALID"],
  ["https://./", "HOST_INVALID"],
  ["https://denied.test./", "DOMAIN_NOT_ALLOWED"],
  ["https://localhost./", "DOMAIN_NOT_ALLOWED"],
  ["https://metadata.google.internal./", "DOMAIN_NOT_ALLOWED"],
  ["https://trusted.test.:443/", "allowed", "CONNECT"],
  ["https://denied.test.:443/", "DOMAIN_NOT_ALLOWED", "CONNECT"],
  ["https://trusted.test..:443/", "HOST_INVALID", "CONNECT"],
]);

table("B29: every spelling of an international name is that name", [
  ["https://bücher.test/", "allowed"],
  ["https://BÜCHER.test/", "allowed"],
  ["https://bu\u0308cher.test/", "allowed"],
  ["https://xn--bcher-kva.test/", "allowed"],
  ["https://XN--BCHER-KVA.test/", "allowed"],
  ["https://ｂücher．test/", "allowed"],
  ["https://bü\u00adcher.test/", "allowed"],
  ["https://bucher.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://www.bücher.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://a.faß.test/", "allowed"],
  ["https://a.xn--fa-hia.test/", "allowed"],
  ["https://a.fass.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://trusted.teſt/", "allowed"],
  ["https://tru\u0455ted.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://xn--trusted.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://xn--a.wild.test/", "HOST_INVALID"],
  ["https://xn--.wild.test/", "HOST_INVALID"],
  ["https://xn--te\u0161la.wild.test/", "HOST_INVALID"],
  ["https://a\u200db.wild.test/", "HOST_INVALID"],
  ["https://a\ud800.wild.test/", "URL_INVALID"],
]);

table("B31: names match whole, or below a suffix at a label's boundary", [
  ["https://trusted.test/", "allowed"],
  ["https://TRUSTED.TEST/", "allowed"],
  ["https://nottrusted.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://trusted.test.evil.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://a.trusted.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://trusted.test-evil.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://a.wild.test/", "allowed"],
  ["https://a.b.c.wild.test/", "allowed"],
  ["https://wild.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://notwild.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://a.notwild.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://a.wild.test.evil.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://*.wild.test/", "HOST_INVALID"],
  ["https://test/", "DOMAIN_NOT_ALLOWED"],
]);

table("what parsers read differently is refused", [
  ["https://trusted.test@evil.test/", "URL_INVALID"],
  ["https://trusted.test:443@evil.test/", "URL_INVALID"],
  ["https://evil.test@trusted.test/", "URL_INVALID"],
  ["https://@trusted.test/", "URL_INVALID"],
  ["https://user:password@trusted.test/", "URL_INVALID"],
  ["https://evil.test\\@trusted.test/", "URL_INVALID"],
  ["https://trusted.test\\.evil.test/", "URL_INVALID"],
  ["https:\\\\trusted.test/", "URL_INVALID"],
  ["https://evil.test#@trusted.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://evil.test?@trusted.test/", "DOMAIN_NOT_ALLOWED"],
  ["https://trusted.test%2eevil.test/", "HOST_INVALID"],
  ["https://trusted%2etest/", "HOST_INVALID"],
  ["https://%74rusted.test/", "HOST_INVALID"],
  ["https://trusted.test%00.evil.test/", "HOST_INVALID"],
  ["https://trusted.test\u0000.evil.test/", "URL_INVALID"],
  ["https://tru\tsted.test/", "URL_INVALID"],
  ["https://trusted.test\r\nHost: evil.test/", "URL_INVALID"],
  ["https://trusted.test/ HTTP/1.1\r\nHost: evil.test", "URL_INVALID"],
  [" https://trusted.test/", "URL_INVALID"],
  ["https://trusted.test\u3000/", "HOST_INVALID"],
  ["https:trusted.test/", "URL_INVALID"],
  ["https:/trusted.test/", "URL_INVALID"],
  ["https:///trusted.test/", "HOST_INVALID"],
  ["//trusted.test/", "URL_INVALID"],
  ["trusted.test", "URL_INVALID"],
  ["", "URL_INVALID"],
  ["file:///etc/passwd", "URL_INVALID"],
  ["gopher://trusted.test/_GET", "URL_INVALID"],
  ["ftp://trusted.test/", "URL_INVALID"],
  ["data:text/plain,trusted.test", "URL_INVALID"],
  ["javascript://trusted.test/", "URL_INVALID"],
  ["HTTPS://trusted.test/", "allowed"],
  ["wss://trusted.test/", "allowed"],
  ["ws://trusted.test/", "PLAIN_HTTP_NOT_ALLOWED"],
]);

table("scheme, port and method are part of the rule", [
  ["http://trusted.test/", "PLAIN_HTTP_NOT_ALLOWED"],
  ["http://trusted.test:443/", "PLAIN_HTTP_NOT_ALLOWED"],
  ["http://plain.test/", "allowed"],
  ["https://plain.test/", "allowed"],
  ["https://trusted.test:443/", "allowed"],
  ["https://trusted.test:00443/", "allowed"],
  ["https://trusted.test:8443/", "PORT_NOT_ALLOWED"],
  ["https://trusted.test:22/", "PORT_NOT_ALLOWED"],
  ["https://port.test:8443/", "allowed"],
  ["https://port.test/", "PORT_NOT_ALLOWED"],
  ["https://trusted.test:/", "URL_INVALID"],
  ["https://trusted.test:0/", "URL_INVALID"],
  ["https://trusted.test:65979/", "URL_INVALID"],
  ["https://trusted.test:4294967739/", "URL_INVALID"],
  ["https://trusted.test:443:8443/", "URL_INVALID"],
  ["https://trusted.test:+443/", "URL_INVALID"],
  ["https://trusted.test:４４３/", "URL_INVALID"],
  ["https://api.test/v1", "allowed", "POST"],
  ["https://api.test/v1", "METHOD_NOT_ALLOWED_BY_POLICY", "DELETE"],
  ["https://api.test/v1", "METHOD_NOT_ALLOWED_BY_POLICY", "post"],
  ["https://trusted.test/", "METHOD_NOT_ALLOWED_BY_POLICY", "TRACE"],
  ["https://trusted.test/", "METHOD_NOT_ALLOWED_BY_POLICY", "track"],
  ["https://trusted.test/", "METHOD_NOT_ALLOWED_BY_POLICY", "connect"],
  ["https://trusted.test/", "METHOD_NOT_ALLOWED_BY_POLICY", "GET /x HTTP/1.1\r\nX:"],
  ["https://trusted.test/", "METHOD_NOT_ALLOWED_BY_POLICY", ""],
  ["https://trusted.test/", "allowed", "PROPFIND"],
]);

table("a path prefix holds for every way of reading the path", [
  ["https://api.test/v1/items?next=/../x", "allowed"],
  ["https://api.test/%76%31/items", "allowed"],
  ["https://api.test/v1/a%20b/caf%C3%A9", "allowed"],
  ["https://api.test/v1/a%2Fb", "allowed"],
  ["https://api.test/v1/a..b/...", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/a..b/..c", "allowed"],
  ["https://api.test/admin/../v1/x", "allowed"],
  ["https://api.test/", "PATH_NOT_ALLOWED"],
  ["https://api.test/v10", "PATH_NOT_ALLOWED"],
  ["https://api.test/V1/x", "PATH_NOT_ALLOWED"],
  ["https://api.test//v1/x", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/../admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/%2e%2e/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/.%2E/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/..%2fadmin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1%2f..%2fadmin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/..%5cadmin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/%252e%252e/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/%25252e%25252e%25252fadmin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/%25252525252525252e", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/..;/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/..;a=b/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/%2e%2e;/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/..%00/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/..%20/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/%c0%ae%c0%ae/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/..%c0%afadmin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/%u002e%u002e/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1/%ef%bc%8e%ef%bc%8e/admin", "PATH_NOT_ALLOWED"],
  ["https://api.test/v1;x/../admin", "PATH_NOT_ALLOWED"],
]);

describe("B33: what a name resolves to is judged whole, once", () => {
  const decisionFor = (url: string) => {
    const decision = decide(policy, { method: "GET", url });
    expect(decision.allowed).toBe(true);
    return decision as Allowed;
  };
  const refused: [url: string, answers: string[]][] = [
    ["https://trusted.test/", ["127.0.0.1"]],
    ["https://trusted.test/", ["::ffff:127.0.0.1"]],
    ["https://trusted.test/", ["::ffff:a9fe:a9fe"]],
    ["https://trusted.test/", ["64:ff9b::a00:1"]],
    ["https://trusted.test/", ["93.184.216.34", "127.0.0.1"]],
    ["https://trusted.test/", ["2600::1", "fd00::1"]],
    ["https://trusted.test/", ["93.184.216.34", "0.0.0.0"]],
    ["https://trusted.test/", []],
    ["https://trusted.test/", ["fe80::1%eth0"]],
    ["https://trusted.test/", ["0x7f.1"]],
    ["https://trusted.test/", ["010.0.0.1"]],
    ["https://trusted.test/", ["93.184.216.34", "localhost"]],
    ["https://trusted.test/", ["10.20.0.1"]], // another rule's private range
    ["https://onprem.test/", ["10.20.1.1", "10.21.0.1"]],
    ["https://onprem.test/", ["127.0.0.1"]],
    ["https://onprem.test/", ["64:ff9b::10.20.0.1"]],
    ["https://onprem.test/", ["2002:a14:1::1"]],
  ];
  test.each(refused)("%s at %j is refused", (url, answers) => {
    expect(decideAddresses(decisionFor(url), answers)).toMatchObject({
      allowed: false,
      code: "ADDRESS_NOT_ALLOWED",
    });
  });
  const connected: [url: string, answers: string[], addresses: string[]][] = [
    ["https://trusted.test/", ["93.184.216.34", "2600::1"], ["93.184.216.34", "2600::1"]],
    ["https://trusted.test/", ["::ffff:93.184.216.34", "93.184.216.34"], ["93.184.216.34"]],
    ["https://trusted.test/", ["64:ff9b::5db8:d822"], ["64:ff9b::5db8:d822"]],
    [
      "https://onprem.test/",
      ["10.20.1.1", "fd00:20::7", "93.184.216.34"],
      ["10.20.1.1", "fd00:20::7", "93.184.216.34"],
    ],
    ["https://onprem.test/", ["::ffff:10.20.1.1"], ["10.20.1.1"]],
  ];
  test.each(connected)("%s at %j connects to exactly these", (url, answers, addresses) => {
    expect(decideAddresses(decisionFor(url), answers)).toEqual({ allowed: true, addresses });
  });
});

test("what is sent is what was judged: canonical host, resolved path, no fragment", () => {
  const sent = (url: string) => (decide(policy, { method: "GET", url }) as Allowed).target.url;
  expect(sent("HTTPS://BÜCHER.test.:443/a/./b/../c?q=1#secret")).toBe("https://xn--bcher-kva.test/a/c?q=1");
  expect(sent("http://[::ffff:7f00:9]:9000")).toBe("http://127.0.0.9:9000/");
  expect(sent("wss://port.test:8443/socket")).toBe("https://port.test:8443/socket");
});

test("a refusal names the host and the reason, and repeats neither path nor query nor password", () => {
  for (const url of [
    "https://denied.test/s3cret?key=s3cret",
    "https://api.test/s3cret?key=s3cret",
    "https://user:s3cret@trusted.test/s3cret",
    "https://trusted.test:8443/s3cret#s3cret",
    "http://127.0.0.1/s3cret",
    "https://api.test/v1/..%2fs3cret",
  ]) {
    const decision = decide(policy, { method: "GET", url });
    expect(decision).toMatchObject({ allowed: false });
    const said = JSON.stringify([(decision as { message: string }).message, auditFields(decision)]);
    expect(said).not.toContain("s3cret");
    expect(said.length).toBeGreaterThan(60);
  }
});

test("text from outside reaches a message escaped and bounded", () => {
  const decision = decide(policy, { method: "GET", url: `https://\u202eevil|${"x".repeat(900)}/` });
  expect(decision).toMatchObject({ allowed: false, code: "HOST_INVALID" });
  const { message } = decision as { message: string };
  expect(message).toContain('"\\u202eevil|');
  expect(message.length).toBeLessThan(300);
});
