import { describe, expect, test } from "vitest";
import { compilePolicy, loadPolicy } from "#core/policy/compile.ts";
import { type Allowed, auditFields, decide } from "#core/policy/decide.ts";
import { type Arrival, decideRequest, decideTlsName, type RequestHead } from "#core/policy/request.ts";

const policy = compilePolicy(
  loadPolicy({
    rules: [
      { host: "plain.test", plain_http: true },
      { host: "secure.test" },
      { host: "port.test", port: 8443 },
      { host: "git.test", opaque: true },
      { host: "93.184.216.34", plain_http: true },
    ],
  }),
);

const proxy: Arrival = { kind: "proxy" };

const head = (method: string, target: string, host?: string | string[], upgrade?: string): RequestHead => ({
  method,
  target,
  hosts: host === undefined ? [] : [host].flat(),
  upgrade: upgrade ?? null,
});

const tunnelTo = (authority: string, scheme: "http" | "https" = "https"): Arrival => {
  const { decision } = decideRequest(policy, head("CONNECT", authority, authority), proxy);
  expect(decision.allowed).toBe(true);
  return { kind: "tunnel", scheme, tunnel: decision as Allowed };
};

const outcome = (request: RequestHead, arrival: Arrival = proxy): string => {
  const { decision } = decideRequest(policy, request, arrival);
  return decision.allowed ? `${decision.passage} ${decision.target.url}` : decision.code;
};

describe("B36: a host that no rule names is refused in every form, with the same fields in the log", () => {
  const forms: [name: string, request: RequestHead, arrival?: Arrival][] = [
    ["CONNECT :443", head("CONNECT", "denied.test:443", "denied.test:443")],
    ["CONNECT :80", head("CONNECT", "denied.test:80", "denied.test:80")],
    ["CONNECT with the root dot", head("CONNECT", "denied.test.:443")],
    ["absolute-form, http", head("GET", "http://denied.test/?secret=1", "denied.test")],
    ["absolute-form, https", head("GET", "https://denied.test/", "denied.test")],
    ["origin-form with Host", head("GET", "/?secret=1", "denied.test")],
    ["WebSocket upgrade", head("GET", "http://denied.test/", "denied.test", "websocket")],
    ["ws: URL", head("GET", "ws://denied.test/", "denied.test", "websocket")],
    ["h2c upgrade", head("GET", "http://denied.test/", "denied.test", "h2c")],
  ];
  test.each(forms)("%s", (_, request, arrival = proxy) => {
    const { decision, upgrade } = decideRequest(policy, request, arrival);
    expect(decision).toMatchObject({ allowed: false, code: "DOMAIN_NOT_ALLOWED" });
    expect(upgrade).toBeNull();
    const fields = auditFields(decision);
    expect(fields).toMatchObject({ host: "denied.test", method: request.method, rule: null });
    const allowed = decideRequest(policy, head("GET", "http://plain.test/"), proxy).decision;
    expect(Object.keys(fields)).toEqual(Object.keys(auditFields(allowed)));
    expect(JSON.stringify(fields)).not.toContain("secret");
  });
});

test("an allowed host is allowed in every form", () => {
  expect(outcome(head("GET", "http://plain.test/x", "plain.test"))).toBe("direct http://plain.test/x");
  expect(outcome(head("GET", "/x", "PLAIN.test.:80"))).toBe("direct http://plain.test/x");
  expect(outcome(head("GET", "https://secure.test/", "secure.test:443"))).toBe("direct https://secure.test/");
  expect(outcome(head("CONNECT", "secure.test:443", "secure.test:443"))).toBe("opened https://secure.test/");
  expect(outcome(head("CONNECT", "plain.test:80"))).toBe("opened https://plain.test:80/");
  expect(outcome(head("CONNECT", "git.test:443"))).toBe("opaque https://git.test/");
  expect(outcome(head("CONNECT", "port.test:8443"))).toBe("opened https://port.test:8443/");
  expect(outcome(head("GET", "/x?y", "secure.test"), tunnelTo("secure.test:443"))).toBe(
    "direct https://secure.test/x?y",
  );
  expect(outcome(head("GET", "/", "plain.test"), tunnelTo("plain.test:80", "http"))).toBe(
    "direct http://plain.test/",
  );
});

test("only a WebSocket is an upgrade; another protocol is not switched to", () => {
  const upgradeOf = (method: string, token: string) =>
    decideRequest(policy, head(method, "http://plain.test/", "plain.test", token), proxy).upgrade;
  expect(upgradeOf("GET", "websocket")).toBe("websocket");
  expect(upgradeOf("GET", "WebSocket")).toBe("websocket");
  expect(upgradeOf("POST", "websocket")).toBeNull();
  expect(upgradeOf("GET", "h2c")).toBeNull();
  expect(upgradeOf("GET", "websocket, h2c")).toBeNull();
});

describe("a request that names two hosts names none", () => {
  const open = () => tunnelTo("secure.test:443");
  const mismatched: [name: string, request: RequestHead, arrival?: () => Arrival][] = [
    ["an address with an allowed name's Host", head("GET", "http://93.184.216.34/", "plain.test")],
    ["an allowed name with a denied Host", head("GET", "http://plain.test/", "denied.test")],
    ["a Host with another port", head("GET", "http://plain.test/", "plain.test:8080")],
    ["two Host fields", head("GET", "/", ["plain.test", "denied.test"])],
    ["two equal Host fields", head("GET", "/", ["plain.test", "plain.test"])],
    ["no Host", head("GET", "/")],
    ["an empty Host", head("GET", "/", "")],
    ["a Host with a path", head("GET", "/", "plain.test/x")],
    ["a Host with userinfo", head("GET", "/", "plain.test@denied.test")],
    ["a Host with a fragment", head("GET", "/", "denied.test#")],
    ["CONNECT without a port", head("CONNECT", "secure.test")],
    ["CONNECT with a URL", head("CONNECT", "https://secure.test:443/")],
    ["CONNECT with userinfo", head("CONNECT", "user@secure.test:443")],
    ["CONNECT with a path", head("CONNECT", "secure.test/:443")],
    ["CONNECT with another Host", head("CONNECT", "secure.test:443", "denied.test:443")],
    ["asterisk-form", head("OPTIONS", "*", "plain.test")],
    ["a bare word", head("GET", "plain.test", "plain.test")],
    ["an empty target", head("GET", "", "plain.test")],
    ["a tunnel used for another Host", head("GET", "/", "plain.test"), open],
    ["a tunnel used for another URL", head("GET", "https://git.test/", "git.test"), open],
    ["a tunnel used for another port", head("GET", "/", "secure.test:8443"), open],
    ["http: inside TLS", head("GET", "http://secure.test/", "secure.test"), open],
    ["CONNECT inside a tunnel", head("CONNECT", "secure.test:443", "secure.test:443"), open],
  ];
  test.each(mismatched)("%s", (_, request, arrival = () => proxy) => {
    expect(outcome(request, arrival())).toMatch(/^(REQUEST_TARGET_INVALID|URL_INVALID)$/);
  });
});

test("a request cannot smuggle a second one in its target or Host", () => {
  for (const request of [
    head("GET", "/ HTTP/1.1\r\nHost: denied.test", "plain.test"),
    head("GET", "http://plain.test/\r\nX: y", "plain.test"),
    head("GET", "/", "plain.test\r\nX: y"),
    head("GET", "/\0", "plain.test"),
    head("GET", "\\\\denied.test/", "plain.test"),
  ]) {
    expect(outcome(request)).toMatch(/_INVALID$/);
  }
});

test("a tunnel is refused at a port that no rule names, and to an address that is not public", () => {
  expect(outcome(head("CONNECT", "secure.test:80"))).toBe("PORT_NOT_ALLOWED");
  expect(outcome(head("CONNECT", "secure.test:22"))).toBe("PORT_NOT_ALLOWED");
  expect(outcome(head("CONNECT", "git.test:80"))).toBe("PORT_NOT_ALLOWED");
  expect(outcome(head("CONNECT", "127.0.0.1:443"))).toBe("ADDRESS_NOT_ALLOWED");
  expect(outcome(head("CONNECT", "[::ffff:7f00:1]:443"))).toBe("ADDRESS_NOT_ALLOWED");
  expect(outcome(head("GET", "/", "plain.test"), tunnelTo("plain.test:443"))).toBe(
    "direct https://plain.test/",
  );
});

test("a tunnel's TLS must name the host that CONNECT named", () => {
  const tunnel = (authority: string) => {
    const arrival = tunnelTo(authority);
    return arrival.kind === "tunnel" ? arrival.tunnel : expect.unreachable();
  };
  for (const authority of ["secure.test:443", "git.test:443"]) {
    expect(decideTlsName(tunnel(authority), authority.replace(":443", "").toUpperCase()).allowed).toBe(true);
    for (const name of [
      "denied.test",
      "a.git.test",
      "git.test.denied.test",
      "",
      "git.test\0",
      "93.184.216.34",
    ]) {
      const verdict = decideTlsName(tunnel(authority), name);
      expect(verdict).toMatchObject({ allowed: false, code: "TLS_NAME_MISMATCH" });
    }
  }
  // We end the TLS of an opened tunnel and see its requests; in an opaque one the name is all there is.
  expect(decideTlsName(tunnel("secure.test:443"), null).allowed).toBe(true);
  expect(decideTlsName(tunnel("git.test:443"), null)).toMatchObject({ code: "TLS_NAME_MISMATCH" });
});

test("an opaque tunnel gets no address that a rule opens only to requests it can see", () => {
  const mixed = compilePolicy(
    loadPolicy({
      rules: [
        { host: "both.test", opaque: true },
        { host: "*.test.test", methods: ["GET"], allow_private: ["10.0.0.1"] },
        { host: "a.test.test", opaque: true },
      ],
    }),
  );
  const connect = decide(mixed, { method: "CONNECT", url: "https://a.test.test/" });
  expect(connect).toMatchObject({ allowed: true, passage: "opaque", allowPrivate: [] });
  const get = decide(mixed, { method: "GET", url: "https://a.test.test/" }) as Allowed;
  expect(get.allowPrivate).toHaveLength(1);
});
