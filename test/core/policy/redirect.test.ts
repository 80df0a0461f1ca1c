import { describe, expect, test } from "vitest";
import { compilePolicy, loadPolicy } from "#core/policy/compile.ts";
import { type Allowed, decide } from "#core/policy/decide.ts";
import { decideRedirect } from "#core/policy/redirect.ts";

const rules = [
  { host: "a.test", plain_http: true },
  { host: "a.test", port: 8443 },
  { host: "b.test" },
  { host: "paths.test", path_prefix: "/v1" },
  { host: "gets.test", methods: ["GET"] },
  { host: "bücher.example" },
];
const secrets = [
  { host: "a.test", header: "X-Api-Key", secret: "A" },
  { host: "b.test", header: "Authorization", secret: "B" },
];
const load = (redirects_max = 5) => compilePolicy(loadPolicy({ rules, secrets, redirects_max }));
const policy = load();

const call = (url: string, method = "GET") => {
  const decision = decide(policy, { method, url });
  expect(decision.allowed).toBe(true);
  return decision as Allowed;
};

const redirect = (
  location: string | null,
  options: { status?: number; method?: string; from?: string } = {},
) =>
  decideRedirect(policy, [call(options.from ?? "https://a.test/x/y", options.method)], {
    status: options.status ?? 302,
    location,
  });

const outcome = (...parameters: Parameters<typeof redirect>): string => {
  const result = redirect(...parameters);
  if (result.kind === "follow") return `${result.decision.method} ${result.decision.target.url}`;
  return result.kind === "answer" ? "answer" : result.denied.code;
};

describe("B35: each hop passes the whole policy", () => {
  test.each([
    ["http://169.254.169.254/", "ADDRESS_NOT_ALLOWED"],
    ["//127.0.0.1/", "ADDRESS_NOT_ALLOWED"],
    ["//[::ffff:127.0.0.1]/", "ADDRESS_NOT_ALLOWED"],
    ["https://0x7f.1/", "ADDRESS_NOT_ALLOWED"],
    ["https://denied.test/", "DOMAIN_NOT_ALLOWED"],
    ["//denied.test/", "DOMAIN_NOT_ALLOWED"],
    ["https://a.test.denied.test/", "DOMAIN_NOT_ALLOWED"],
    ["http://b.test/", "PLAIN_HTTP_NOT_ALLOWED"],
    ["http://b.test.:80/", "PLAIN_HTTP_NOT_ALLOWED"],
    ["https://b.test:8443/", "PORT_NOT_ALLOWED"],
    ["https://paths.test/v2", "PATH_NOT_ALLOWED"],
    ["https://paths.test/v1/..%2fv2", "PATH_NOT_ALLOWED"],
    ["https://b.test@denied.test/", "URL_INVALID"],
    ["https://user:password@b.test/", "URL_INVALID"],
    ["\\\\denied.test/", "URL_INVALID"],
    ["/\\denied.test/", "URL_INVALID"],
    ["/\t/denied.test/", "URL_INVALID"],
    ["https:denied.test/", "URL_INVALID"],
    ["https:/denied.test/", "URL_INVALID"],
    ["https:///denied.test/", "HOST_INVALID"],
    ["///denied.test/", "HOST_INVALID"],
    ["file:///etc/passwd", "URL_INVALID"],
    ["javascript:alert(1)", "URL_INVALID"],
    ["/next\r\nX: y", "URL_INVALID"],
    ["https://b.test../", "HOST_INVALID"],
    ["https://b.test/z#top", "GET https://b.test/z"],
    ["https://B.TEST./z", "GET https://b.test/z"],
    ["//b.test/z", "GET https://b.test/z"],
    ["/z?q", "GET https://a.test/z?q"],
    ["z", "GET https://a.test/x/z"],
    ["../../../z", "GET https://a.test/z"],
    ["?q", "GET https://a.test/x/y?q"],
    ["http://a.test/z", "GET http://a.test/z"],
  ])("%j: %s", (location, expected) => {
    expect(outcome(location)).toBe(expected);
  });

  test("a refusal names the hop and where it came from", () => {
    const result = redirect("https://denied.test/?key=s3cret");
    const message = result.kind === "refused" ? result.denied.message : "";
    expect(message).toContain("hop 1, from https://a.test:443");
    expect(message).toContain("denied.test");
    expect(message).not.toContain("s3cret");
    const downgrade = redirect("http://b.test/");
    expect(downgrade.kind === "refused" && downgrade.denied.message).toContain("from https: to http:");
  });
});

test("what is no redirect, or has no Location, is the answer as it is", () => {
  expect(outcome(null)).toBe("answer");
  for (const status of [200, 300, 304, 305, 306, 399, 404]) expect(outcome("/z", { status })).toBe("answer");
  const none = decideRedirect(load(0), [call("https://a.test/")], {
    status: 302,
    location: "https://denied.test/",
  });
  expect(none.kind).toBe("answer");
});

test("the method and the body change as the Fetch standard has it", () => {
  const after = (status: number, method: string) => {
    const result = redirect("/z", { status, method });
    return result.kind === "follow" ? [result.decision.method, result.dropBody] : result.kind;
  };
  expect(after(301, "POST")).toEqual(["GET", true]);
  expect(after(302, "POST")).toEqual(["GET", true]);
  expect(after(302, "PUT")).toEqual(["PUT", false]);
  expect(after(303, "PUT")).toEqual(["GET", true]);
  expect(after(303, "HEAD")).toEqual(["HEAD", false]);
  expect(after(307, "POST")).toEqual(["POST", false]);
  expect(after(308, "DELETE")).toEqual(["DELETE", false]);
  // and the policy judges the method that is really sent
  expect(outcome("https://gets.test/", { status: 307, method: "POST" })).toBe("METHOD_NOT_ALLOWED_BY_POLICY");
  expect(outcome("https://gets.test/", { status: 303, method: "POST" })).toBe("GET https://gets.test/");
});

describe("credentials stay with the origin they were given to", () => {
  const kept = (location: string, headers: string[], options?: Parameters<typeof redirect>[1]) => {
    const result = redirect(location, options);
    return result.kind === "follow" ? headers.filter((header) => result.survives(header)) : result.kind;
  };
  const sent = [
    "Authorization",
    "Cookie",
    "X-Api-Key",
    "X-Other-Token",
    "Accept",
    "User-Agent",
    "Content-Type",
  ];

  test("within one origin the caller's headers stay, and injected ones are injected anew", () => {
    expect(kept("/z", sent)).toEqual(sent.filter((header) => header !== "X-Api-Key"));
    const result = redirect("/z");
    expect(result.kind === "follow" && result.decision.secrets).toEqual([
      { header: "x-api-key", secret: "A" },
    ]);
  });

  test.each(["https://b.test/", "https://a.test:8443/", "http://a.test/"])(
    "at %s only harmless ones stay",
    (to) => {
      expect(kept(to, sent, { status: 307, method: "POST" })).toEqual([
        "Accept",
        "User-Agent",
        "Content-Type",
      ]);
    },
  );

  test("the new origin gets its own secrets and none of the old", () => {
    const result = redirect("https://b.test/");
    expect(result.kind === "follow" && result.decision.secrets).toEqual([
      { header: "authorization", secret: "B" },
    ]);
    const plain = redirect("http://a.test/");
    expect(plain.kind === "follow" && plain.decision.secrets).toEqual([]);
  });

  test("a secret that an earlier hop was given does not come back through a later one", () => {
    const hops: [Allowed, ...Allowed[]] = [
      call("https://a.test/"),
      call("https://b.test/"),
      call("https://b.test/2"),
    ];
    const result = decideRedirect(policy, hops, { status: 302, location: "/3" });
    expect(
      result.kind === "follow" && [result.survives("X-Api-Key"), result.survives("Authorization")],
    ).toEqual([false, false]);
  });

  test("a dropped body takes its headers along", () => {
    expect(kept("/z", ["Content-Type", "Content-Length", "Accept"], { status: 303, method: "POST" })).toEqual(
      ["Accept"],
    );
  });
});

test("a chain ends at the policy's limit, and at the first loop", () => {
  const chain = (length: number): [Allowed, ...Allowed[]] => [
    call("https://a.test/0"),
    ...Array.from({ length: length - 1 }, (_, i) => call(`https://a.test/${i + 1}`)),
  ];
  const next = (length: number, location: string, limit = 5) => {
    const result = decideRedirect(load(limit), chain(length), { status: 302, location });
    return result.kind === "refused" ? result.denied.code : result.kind;
  };
  expect(next(5, "/next")).toBe("follow");
  expect(next(6, "/next")).toBe("TOO_MANY_REDIRECTS");
  expect(next(20, "/next", 20)).toBe("follow");
  expect(next(21, "/next", 20)).toBe("TOO_MANY_REDIRECTS");
  expect(next(3, "/0")).toBe("TOO_MANY_REDIRECTS");
  expect(next(3, "https://A.test.:443/2#again")).toBe("TOO_MANY_REDIRECTS");
  // a POST that was answered with a GET of the same place is no loop
  expect(outcome("/x/y", { status: 303, method: "POST" })).toBe("GET https://a.test/x/y");
});

/** A Location as it comes: one character for each byte. */
const bytes = (text: string) => Buffer.from(text).toString("latin1");

test.each([
  ["/发票/café?q=é", "https://a.test/%E5%8F%91%E7%A5%A8/caf%C3%A9?q=%C3%A9"],
  ["é", "https://a.test/x/%C3%A9"],
  ["https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"],
  ["//bücher.example/", "https://xn--bcher-kva.example/"],
  ["https://paths.test/v1/．．/v2", "PATH_NOT_ALLOWED"],
  ["//１６９.254.169.254/", "ADDRESS_NOT_ALLOWED"],
  ["//b.test／.denied.test/", "HOST_INVALID"],
])("a Location in raw UTF-8, %s, is read once, in path and host", (location, expected) => {
  expect(outcome(bytes(location))).toMatch(expected.startsWith("https:") ? `GET ${expected}` : expected);
});

test.each([
  ["/caf\xe9?\xff", "GET https://a.test/caf%E9?%FF"],
  ["/\xc3\xa9/\xe9", "GET https://a.test/%C3%A9/%E9"],
  ["https://paths.test/v1/\xc0\xae\xc0\xae/v2", "PATH_NOT_ALLOWED"],
  ["https://b\xfccher.example/", "HOST_INVALID"],
])("one in other bytes, %j, is their escapes, and no host", (location, expected) => {
  expect(outcome(location)).toBe(expected);
});
