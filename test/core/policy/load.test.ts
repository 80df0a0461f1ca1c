import { describe, expect, test } from "vitest";
import { jsonDigest } from "#core/json.ts";
import { compilePolicy, loadPolicy, refusePrivateBeyond } from "#core/policy/compile.ts";
import { type Allowed, decide, decideUnpinned } from "#core/policy/decide.ts";

const refusalOf = (policy: unknown): string => {
  try {
    loadPolicy(policy);
  } catch (error) {
    expect(error).toMatchObject({ code: "POLICY_INVALID" });
    return (error as Error).message;
  }
  return "loaded";
};

test("an empty policy reaches nothing", () => {
  const policy = compilePolicy(loadPolicy({}));
  for (const url of ["https://a.test/", "http://localhost/", "https://93.184.216.34/"]) {
    expect(decide(policy, { method: "GET", url })).toMatchObject({
      allowed: false,
      code: "DOMAIN_NOT_ALLOWED",
    });
  }
});

describe("a faulty rule fails when it is loaded and says where and what to write instead", () => {
  const hosts: [host: unknown, message: string][] = [
    ["", "it is empty"],
    ["*", "name the hosts"],
    ["*.", "name the hosts"],
    ["*.com", "too wide"],
    ["*.localhost.", "too wide"],
    [".trusted.test", "write *.trusted.test for the names below it, and trusted.test for the name itself"],
    ["a.*.test", "* stands only in front"],
    ["*a.test", "* stands only in front"],
    ["*.*.a.test", "* stands only in front"],
    ["**.a.test", "* stands only in front"],
    ["trusted.test:443", "the port is a member of its own"],
    ["https://trusted.test", "no place in a host"],
    ["trusted.test/v1", "no place in a host"],
    ["user@trusted.test", "no place in a host"],
    ["trusted..test", "empty label"],
    ["trusted.test..", "empty label"],
    ["-a.test", "neither begins nor ends with -"],
    ["xn--a.test", "not valid IDNA"],
    ["xn--te\u0161la.test", "IDNA"],
    ["a\u200db.test", "IDNA"],
    ["a b.test", "no place in a host"],
    ["a%2etest", "no place in a host"],
    ["1.2.3.4.5", "refuses it"],
    ["0x7f.1", "write the address as 127.0.0.1"],
    ["127.1", "write the address as 127.0.0.1"],
    ["[::FFFF:127.0.0.1]", "write the address as 127.0.0.1"],
    ["[0:0::1]", "write the address as [::1]"],
    ["::1", "an IPv6 address in brackets"],
    ["*.0.0.1", "no names below an address"],
    [`${"a.".repeat(127)}test`, "253 characters"],
    [`${"a".repeat(64)}.test`, "1 to 63"],
    [42, "must be a string, not 42"],
    [null, "must be a string, not null"],
  ];
  test.each(hosts)("host %j: %s", (host, message) => {
    const refusal = refusalOf({ rules: [{ host: "fine.test" }, { host }] });
    expect(refusal).toContain("rules[1].host: ");
    expect(refusal).toContain(message);
  });

  const policies: [policy: unknown, message: string][] = [
    [{ rules: [{}] }, "rules[0].host: "],
    [
      { rules: [{ host: "a.test", metods: ["GET"] }] },
      "rules[0].metods: unknown member; did you mean methods?",
    ],
    [{ rulez: [] }, "policy: rulez: unknown member; did you mean rules?"],
    [{ budgets: { call: 3 } }, "budgets.call: unknown member; did you mean calls?"],
    [{ rules: [{ host: "a.test", port: 0 }] }, "rules[0].port: "],
    [{ rules: [{ host: "a.test", port: "443" }] }, "rules[0].port: "],
    [{ rules: [{ host: "a.test", methods: [] }] }, "rules[0].methods: "],
    [
      { rules: [{ host: "a.test", methods: ["get"] }] },
      "rules[0].methods[0]: must be a method in upper case",
    ],
    [{ rules: [{ host: "a.test", methods: ["TRACE"] }] }, "must not be CONNECT, TRACE or TRACK"],
    [{ rules: [{ host: "a.test", path_prefix: "v1" }] }, "rules[0].path_prefix: write it as /v1"],
    [{ rules: [{ host: "a.test", path_prefix: "/v1/../v2" }] }, "must not hold //, ; or an escape"],
    [{ rules: [{ host: "a.test", path_prefix: "/v1/./v2" }] }, "write it as /v1/v2"],
    [{ rules: [{ host: "a.test", path_prefix: "/%76" }] }, "write it as /v"],
    [{ rules: [{ host: "a.test", path_prefix: "/é" }] }, "write it as /%C3%A9"],
    [{ rules: [{ host: "a.test", path_prefix: "/a%2fb" }] }, "can be read as a separator"],
    [{ rules: [{ host: "a.test", path_prefix: "/a//b" }] }, "must not hold //"],
    [{ rules: [{ host: "a.test", path_prefix: "/a?b" }] }, "write it as /ab"],
    [{ rules: [{ host: "a.test", opaque: true, methods: ["GET"] }] }, "rules[0].methods: cannot be enforced"],
    [
      { rules: [{ host: "a.test", opaque: true, plain_http: true }] },
      "rules[0].plain_http: cannot be enforced",
    ],
    [
      { rules: [{ host: "a.test", allow_private: ["0.0.0.0/0"] }] },
      "rules[0].allow_private[0]: must lie in one special",
    ],
    [
      { rules: [{ host: "a.test", allow_private: ["93.184.216.34"] }] },
      "public addresses need no permission",
    ],
    [{ rules: [{ host: "a.test", allow_private: ["10.0.0.1/8"] }] }, "no bits after its prefix"],
    [{ rules: [{ host: "a.test", allow_private: ["::ffff:10.0.0.1"] }] }, "IPv4 is written as IPv4"],
    [{ rules: [{ host: "a.test", allow_private: ["FD00::/8"] }] }, "write it as fd00::/8"],
    [{ rules: [{ host: "a.test", allow_private: ["localhost"] }] }, "must be an address"],
    [
      { rules: [{ host: "a.test" }], secrets: [{ host: "b.test", header: "X", secret: "S" }] },
      "secrets[0]: no rule reaches b.test",
    ],
    [
      { rules: [{ host: "a.test", opaque: true }], secrets: [{ host: "a.test", header: "X", secret: "S" }] },
      "other than opaquely",
    ],
    [
      { rules: [{ host: "a.test" }], secrets: [{ host: "a.test", header: "Host", secret: "S" }] },
      "cannot carry a secret",
    ],
    [
      { rules: [{ host: "a.test" }], secrets: [{ host: "a.test", header: "X: y", secret: "S" }] },
      "must be a header name",
    ],
    [
      { rules: [{ host: "a.test" }], secrets: [{ host: "a.test", header: "X", secret: "Bearer abc" }] },
      "must be a secret's name",
    ],
    [
      {
        rules: [{ host: "*.a.test" }],
        secrets: [{ host: "*.a.test", header: "X", secret: "S", plain_http: true }],
      },
      "secrets[0].plain_http: needs an exact host",
    ],
    [
      {
        rules: [{ host: "a.test" }],
        secrets: [
          { host: "a.test", header: "X", secret: "S" },
          { host: "A.TEST.", header: "x", secret: "T" },
        ],
      },
      "secrets[1]: says again",
    ],
    [
      { rules: [{ host: "a.test" }], fingerprints: [{ host: "a.test" }] },
      "fingerprints[0]: needs ignore or pin",
    ],
    [
      { rules: [{ host: "a.test" }], fingerprints: [{ host: "a.test", ignore: [""] }] },
      "must be a JSON Pointer",
    ],
    [
      { rules: [{ host: "a.test" }], fingerprints: [{ host: "a.test", ignore: ["/a~2"] }] },
      "must be a JSON Pointer",
    ],
    [
      { rules: [{ host: "a.test" }], fingerprints: [{ host: "a.test", pin: "abc" }] },
      "fingerprints[0].pin: ",
    ],
    [{ rules: [{ host: "" }], secrets: [{ host: "*", header: "X", secret: "S" }] }, "rules[0].host: "],
    [{ redirects_max: 21 }, "redirects_max: "],
    [{ timeout_ms_max: 0 }, "timeout_ms_max: "],
    [{ budgets: { per_host_calls_per_s: 0 } }, "budgets.per_host_calls_per_s: "],
    [{ budgets: { calls: -1 } }, "budgets.calls: "],
    [{ budgets: { bytes_up: 1.5 } }, "budgets.bytes_up: "],
    [null, "policy: must be an object, not "],
    [[], "policy: must be an object, not "],
    ["{}", "policy: must be an object, not "],
  ];
  test.each(policies)("%j", (policy, message) => {
    expect(refusalOf(policy)).toContain(message);
  });
});

test("every spelling of a policy loads as the same policy, and loading it again changes nothing", async () => {
  const loaded = loadPolicy({
    rules: [
      { host: "BÜCHER.test." },
      { host: "*.bu\u0308cher.TEST" },
      { host: "127.0.0.1" },
      { host: "[::1]" },
    ],
    secrets: [{ host: "bücher.test", header: "Authorization", secret: "S" }],
  });
  expect(loaded.rules.map((rule) => rule.host)).toEqual([
    "xn--bcher-kva.test",
    "*.xn--bcher-kva.test",
    "127.0.0.1",
    "[::1]",
  ]);
  expect(loaded.secrets[0]).toMatchObject({ host: "xn--bcher-kva.test", header: "authorization" });
  expect(await jsonDigest(loadPolicy(loaded))).toBe(await jsonDigest(loaded));
});

test("B29: a rule in Unicode matches the A-labels that requests carry", () => {
  const policy = compilePolicy(loadPolicy({ rules: [{ host: "*.bücher.test" }] }));
  for (const host of [
    "a.xn--bcher-kva.test",
    "a.BÜCHER.test",
    "a.bu\u0308cher.test",
    "A.XN--BCHER-KVA.TEST.",
  ]) {
    expect(decide(policy, { method: "GET", url: `https://${host}/` }).allowed, host).toBe(true);
  }
});

test("B31: an exact one-label rule matches that host alone", () => {
  const policy = compilePolicy(loadPolicy({ rules: [{ host: "com" }] }));
  expect(decide(policy, { method: "GET", url: "https://com/" }).allowed).toBe(true);
  expect(decide(policy, { method: "GET", url: "https://a.com/" }).allowed).toBe(false);
});

test("the most specific rule, secret and fingerprint are taken", () => {
  const policy = compilePolicy(
    loadPolicy({
      rules: [
        { host: "*.a.test" },
        { host: "x.a.test" },
        { host: "x.a.test", path_prefix: "/v1" },
        { host: "*.x.a.test" },
      ],
      secrets: [
        { host: "*.a.test", header: "Authorization", secret: "WIDE" },
        { host: "x.a.test", header: "authorization", secret: "HOST" },
        { host: "x.a.test", path_prefix: "/v1", header: "Authorization", secret: "PATH" },
        { host: "x.a.test", header: "X-Team", secret: "TEAM" },
      ],
      fingerprints: [
        { host: "*.a.test", ignore: ["/time"] },
        { host: "x.a.test", path_prefix: "/v1", ignore: ["/id"] },
      ],
    }),
  );
  const at = (url: string) => {
    const { rule, secrets, fingerprint } = decide(policy, { method: "GET", url }) as Allowed;
    return [rule.name, secrets.map(({ secret }) => secret).sort(), fingerprint?.ignore];
  };
  expect(at("https://x.a.test/v1/y")).toEqual(["rules[2] x.a.test", ["PATH", "TEAM"], ["/id"]]);
  expect(at("https://x.a.test/v10")).toEqual(["rules[1] x.a.test", ["HOST", "TEAM"], ["/time"]]);
  expect(at("https://b.a.test/")).toEqual(["rules[0] *.a.test", ["WIDE"], ["/time"]]);
  expect(at("https://b.x.a.test/")).toEqual(["rules[3] *.x.a.test", ["WIDE"], ["/time"]]);
});

test("a secret goes over plain HTTP only where it says so, and never into a tunnel", () => {
  const policy = compilePolicy(
    loadPolicy({
      rules: [{ host: "a.test", plain_http: true }],
      secrets: [
        { host: "a.test", header: "X-Safe", secret: "SAFE" },
        { host: "a.test", header: "X-Lab", secret: "LAB", plain_http: true },
      ],
    }),
  );
  const sent = (method: string, url: string) =>
    (decide(policy, { method, url }) as Allowed).secrets.map(({ secret }) => secret);
  expect(sent("GET", "https://a.test/")).toEqual(["SAFE", "LAB"]);
  expect(sent("GET", "http://a.test/")).toEqual(["LAB"]);
  expect(sent("CONNECT", "https://a.test/")).toEqual([]);
});

test("where the most specific rule is opaque, no secret is sent and no fingerprint judged", () => {
  const policy = compilePolicy(
    loadPolicy({
      rules: [{ host: "*.a.test" }, { host: "git.a.test", opaque: true }],
      secrets: [{ host: "*.a.test", header: "Authorization", secret: "S" }],
      fingerprints: [{ host: "*.a.test", ignore: ["/time"] }],
    }),
  );
  const at = (host: string) => decide(policy, { method: "GET", url: `https://${host}/` });
  expect(at("www.a.test")).toMatchObject({ secrets: [{ secret: "S" }], fingerprint: { ignore: ["/time"] } });
  expect(at("git.a.test")).toMatchObject({ allowed: true, secrets: [], fingerprint: null });
});

test("where a secret or pin depends on the path, a path that can be read in two ways is refused", () => {
  const policy = compilePolicy(
    loadPolicy({
      rules: [{ host: "a.test" }, { host: "b.test" }],
      fingerprints: [{ host: "a.test", path_prefix: "/model", pin: `sha256:${"0".repeat(64)}` }],
    }),
  );
  const at = (url: string) => decide(policy, { method: "GET", url });
  expect(at("https://a.test/x/..%2fmodel")).toMatchObject({ allowed: false, code: "PATH_NOT_ALLOWED" });
  expect(at("https://a.test/%6dodel")).toMatchObject({ fingerprint: { path_prefix: "/model" } });
  expect(at("https://b.test/x/..%2fmodel")).toMatchObject({ allowed: true });
});

test("a task cannot open private ranges that the operator has not opened", () => {
  const policy = loadPolicy({
    rules: [{ host: "a.test" }, { host: "b.test", allow_private: ["10.1.0.0/16", "127.0.0.1"] }],
  });
  expect(() => refusePrivateBeyond(policy, [])).toThrow(/rules\[1\]\.allow_private 10\.1\.0\.0\/16/);
  expect(() => refusePrivateBeyond(policy, ["10.0.0.0/8"])).toThrow(
    /rules\[1\]\.allow_private 127\.0\.0\.1 /,
  );
  expect(() => refusePrivateBeyond(policy, ["10.1.0.0/17", "127.0.0.0/8"])).toThrow(/10\.1\.0\.0\/16/);
  refusePrivateBeyond(policy, ["10.0.0.0/8", "127.0.0.0/8"]);
  refusePrivateBeyond(loadPolicy({ rules: [{ host: "a.test" }] }), []);
});

test("a policy can demand a proxy that pins DNS", () => {
  expect(decideUnpinned(compilePolicy(loadPolicy({})))).toEqual({ allowed: true });
  const demanding = compilePolicy(loadPolicy({ require_pinned_dns: true }));
  expect(decideUnpinned(demanding)).toMatchObject({ allowed: false, code: "DNS_NOT_PINNED" });
});
