import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { growth, LINEAR_BELOW } from "#test/support/growth.ts";
import { type Asked, observed, redacted, redactedJson, traceOf } from "./redacted.ts";

const R = "[redacted]";

describe("only secret values are replaced, and what is left is JSON as it was written", () => {
  test.each([
    [
      '{"headers":{"Cookie":{"s":"abc"},"Host":"h"},"t":1}',
      ["cookie"],
      `{"headers":{"Cookie":{"s":"${R}"},"Host":"h"},"t":1}`,
    ],
    [
      '{"Authorization":["Bearer x","Bearer y"],"z":1}',
      ["authorization"],
      `{"Authorization":["${R}","${R}"],"z":1}`,
    ],
    ['{"X-Api-Key":12345,"n":1}', ["x_api_key"], `{"X-Api-Key":"${R}","n":1}`],
    ['{"p":"a\\"b\\\\","n": 1.0 }', ["p"], `{"p":"${R}","n": 1.0 }`],
    ['[["Set-Cookie","a=b"],["Host","h"]]', ["set-cookie"], `[["Set-Cookie","${R}"],["Host","h"]]`],
    ['{"name":"Cookie","value":"abc"}', ["cookie"], `{"name":"Cookie","value":"${R}"}`],
    ['{"a":{"pin":null,"ok":true,"pins":[1,null]}}', ["pin"], '{"a":{"pin":null,"ok":true,"pins":[1,null]}}'],
    ['{"big":9007199254740993,"e":1e400,"pw":"x"}', ["pw"], `{"big":9007199254740993,"e":1e400,"pw":"${R}"}`],
  ])("%s", async (json, fields, expected) => {
    const once = await redactedJson(json, { fields });
    expect(once).toBe(expected);
    expect(await redactedJson(once, { fields })).toBe(once);
  });

  test("in JSON within strings within JSON", async () => {
    const inner = JSON.stringify({ a: JSON.stringify({ email: "x@y.example", n: 1 }) });
    const once = JSON.parse(await redactedJson(JSON.stringify({ response: inner }), { fields: ["email"] }));
    expect(JSON.parse(JSON.parse(once.response).a)).toEqual({ email: R, n: 1 });
  });

  test("as names of members, which stay apart", async () => {
    const once = await redactedJson('{"a@b.example":1,"c@d.example":2,"n":3}', { patterns: ["email"] });
    expect(once).toBe(`{"${R}":1,"[redacted 2]":2,"n":3}`);
    expect(await redactedJson(once, { patterns: ["email"] })).toBe(once);
  });

  test("of a PEM that is cut over two strings", async () => {
    const json = JSON.stringify({
      a: "x -----BEGIN PRIVATE KEY-----\nMIIE",
      b: "vQIB\n-----END PRIVATE KEY----- y",
      c: "z",
    });
    const once = JSON.parse(await redactedJson(json, { patterns: ["pem"] }));
    expect(once).toEqual({ a: `x ${R}`, b: " y", c: "z" });
  });

  test("of a known value that is cut over the items of a list", async () => {
    const json = JSON.stringify({
      password: "correct horse battery",
      log: ["see: correct ho", "rse battery!", "end"],
    });
    const once = JSON.parse(await redactedJson(json, { fields: ["password"] }));
    expect(once).toEqual({ password: R, log: [`see: ${R}`, "!", "end"] });
  });

  test("and neighbours that match only together are left alone", async () => {
    const json = '{"a":"bob","b":"c@d.example","c":"4111 1111","d":"1111 1111"}';
    const once = await redactedJson(json, { patterns: ["email", "credit_card"] });
    expect(once).toBe(`{"a":"bob","b":"${R}","c":"4111 1111","d":"1111 1111"}`);
  });
});

const SECRET = "s3cr3t/Wörd+42?";

describe("a value that stands under a field goes wherever else it stands", () => {
  const bytes = Buffer.from(SECRET);
  const encodings: [string, string][] = [
    ["as it is", SECRET],
    ["in capitals", "S3CR3T/WöRD+42?"],
    ["in base64", bytes.toString("base64")],
    ["in base64url", bytes.toString("base64url")],
    ["in base64 behind one byte more", Buffer.from(`x${SECRET}yz`).toString("base64")],
    ["in base64 behind two bytes more", Buffer.from(`xy${SECRET}`).toString("base64")],
    ["in hexadecimal", bytes.toString("hex")],
    ["in upper-case hexadecimal", bytes.toString("hex").toUpperCase()],
    ["in percent escapes", encodeURIComponent(SECRET)],
    ["in percent escapes of every byte", [...bytes].map((byte) => `%${byte.toString(16)}`).join("")],
    [
      "in JSON escapes",
      [...SECRET].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""),
    ],
    ["in entities", [...SECRET].map((char) => `&#${char.codePointAt(0)};`).join("")],
    ["in base64 of its percent escapes", Buffer.from(encodeURIComponent(SECRET)).toString("base64")],
    ["in percent escapes of its base64", encodeURIComponent(bytes.toString("base64"))],
    [
      "in base64 among other bytes",
      Buffer.concat([Buffer.alloc(200, 0x91), bytes, Buffer.alloc(201, 0xe2)]).toString("base64"),
    ],
    [
      "in base64 over two lines",
      Buffer.from(`${"-".repeat(50)}${SECRET}${"-".repeat(30)}`)
        .toString("base64")
        .replace(/(.{76})/, "$1\n"),
    ],
  ];
  test.each(encodings)("%s", async (_, encoded) => {
    const text = `before ${encoded} after`;
    const { events, text: all } = await redacted(
      await traceOf([
        observed(JSON.stringify({ text })),
        {
          type: "memory_write",
          op: "put",
          namespace: "m",
          key: "user/7/pass_word",
          new: { value_json: JSON.stringify(SECRET) },
          version: 1,
        },
      ]),
      { fields: ["password"] },
    );
    expect(events[0]).toMatchObject({ content_json: `{"text":"before ${R} after"}` });
    expect(all).not.toContain(encoded);
  });

  test("in a URL, a header, an argument, an error and its payloads", async () => {
    const segment = await traceOf([
      {
        type: "tool_call_start",
        call: 1,
        kind: "http",
        via: "proxy",
        method: "GET",
        url: `https://a.example/x?q=1&token=${SECRET.slice(0, 6)}&z=2`,
      },
      {
        type: "tool_call_end",
        call: 1,
        state: "answered",
        tries: 1,
        duration_us: 1,
        answer: {
          head_json: '{"headers":[["token","tok-12345678"],["via","x"]]}',
          body: new TextEncoder().encode("ok tok-12345678"),
        },
      },
      {
        type: "process",
        state: "exec",
        pid: 3,
        argv: ["run", "--token", "tok-abc", "--token=tok-def", "tok-12345678"],
      },
      {
        type: "error",
        code: "X",
        text: "token: tok-xyz, then",
        stack: "at tok-12345678",
        memory_json: '{"token":"tok-mem"}',
        payloads: [
          {
            call: 1,
            tool: null,
            url: null,
            sent: '{"token": "tok-cut-of',
            received: "tok-12345678",
            truncated: true,
          },
        ],
      },
    ]);
    const { text, events } = await redacted(segment, { fields: ["token"] });
    expect(text).not.toMatch(/tok-|s3cr3t/);
    expect(events[0]).toMatchObject({ url: `https://a.example/x?q=1&token=${R}&z=2` });
    expect(events[2]).toMatchObject({ argv: ["run", "--token", R, `--token=${R}`, R] });
    expect(events[3]).toMatchObject({ payloads: [{ sent: `{"token": "${R}` }] });
  });

  test("under a memory key's last part, in the memory as a whole too", async () => {
    const memory = '{"user/7/pin":"123","user.pin":[4,null],"n":"12345"}';
    const bare = `{"user/7/pin":"${R}","user.pin":["${R}",null],"n":"12345"}`;
    const { events } = await redacted(
      await traceOf([
        {
          type: "memory_snapshot",
          namespace: "m",
          version: 1,
          state_digest: `sha256:${"0".repeat(64)}`,
          entries_json: memory,
        },
        { type: "error", code: "X", text: "", payloads: [], memory_json: memory },
        observed('{"key":"user/7/pin","value":"123"}'),
      ]),
      { fields: ["pin"] },
    );
    expect(events).toMatchObject([
      { entries_json: bare },
      { memory_json: bare },
      { content_json: `{"key":"user/7/pin","value":"${R}"}` },
    ]);
  });

  test.each([
    ['got {"token":["a-1",{"b":"c-2"}],"n":"d"}', `got {"token":["${R}",{"b":"${R}"}],"n":"d"}`],
    ['{"n":1}\n{"token":{"s":"a-1","t":null},"n":2}', `{"n":1}\n{"token":{"s":"${R}","t":null},"n":2}`],
    ['data: {"h":{"Token":[ "x, y]" , "z" ]}}\n\n', `data: {"h":{"Token":[ "${R}" , "${R}" ]}}\n\n`],
    ['{"u":{"token":["123-45"],"toke', `{"u":{"token":["${R}"],"toke`],
    ['{"u":{"token":[{"a":["123', `{"u":{"token":[{"a":["${R}`],
    ["{'token': {'s': 'a-1'}, 'n': 'b'}", `{'token': {'s': '${R}'}, 'n': 'b'}`],
    ['see {\\"token\\":[\\"a-1\\"],\\"n\\":1}', `see {\\"token\\":[\\"${R}\\"],\\"n\\":1}`],
    ["x token=[a b c], then", `x token=[${R} b c], then`],
  ])("in a list or an object within text that is no JSON: %s", async (text, expected) => {
    const output = async (data: string) => {
      const body = {
        type: "output",
        stream: "stdout",
        offset: 0,
        data: new TextEncoder().encode(data),
      } as const;
      const { events } = await redacted(await traceOf([body]), { fields: ["token"] });
      if (events[0]?.type !== "output") throw new Error("the event is gone");
      return new TextDecoder().decode(events[0].data);
    };
    const once = await output(text);
    expect(once).toBe(expected);
    expect(await output(once)).toBe(once);
  });

  test("but a short one only where it stands as a word, and a very short one only under its field", async () => {
    const json = '{"code":"mia4","c":"no","text":"mia4 ... xmia4x no"}';
    const once = await redactedJson(json, { fields: ["code", "c"] });
    expect(JSON.parse(once)).toEqual({ code: R, c: R, text: `${R} ... xmia4x no` });
  });
});

describe("the built-in patterns", () => {
  test.each([
    ["email", "write to a.b+c@mail.example.org, please", `write to ${R}, please`],
    ["credit_card", "pay 4111 1111 1111 1111 or 4111111111111112", `pay ${R} or 4111111111111112`],
    [
      "credit_card",
      "2 4111 1111 1111 1111 12/27, 4111111111111111-123, 1 2 3 4 5 3782 822463 10005",
      `2 ${R} 12/27, ${R}-123, 1 2 3 4 5 ${R}`,
    ],
    ["phone", "call +49 30 1234567 or (555) 123-4567, on 2024-05-20", `call ${R} or ${R}, on 2024-05-20`],
    ["ipv4", "from 192.168.0.1 not 1.2.3.456", `from ${R} not 1.2.3.456`],
    [
      "iban",
      "to DE89 3704 0044 0532 0130 00 not DE88 3704 0044 0532 0130 00",
      `to ${R} not DE88 3704 0044 0532 0130 00`,
    ],
    ["iban", "REF AB13 BE68 5390 0754 7034 EUR 100", `REF AB13 ${R} EUR 100`],
    ["api_key", "key sk-proj-abcdefghijklmnop1234 and ghp_abcdefghijklmnopqrstuv", `key ${R} and ${R}`],
    ["api_key", "key sk-proj-AbCdEfGhIjKlMnOpQr_wxyzAB12-CDef.", `key ${R}.`],
    [
      "pem",
      "a -----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY----- b -----BEGIN X----- cut",
      `a ${R} b ${R}`,
    ],
    ["TICKET-[0-9]+", "see TICKET-123.", `see ${R}.`],
  ])("%s", async (pattern, text, expected) => {
    expect(JSON.parse(await redactedJson(JSON.stringify(text), { patterns: [pattern] }))).toBe(expected);
  });

  test("an expression that would match nothing, or is none, is refused by its number", async () => {
    const trace = await traceOf([observed('"x"')]);
    await expect(redacted(trace, { patterns: ["a", "b*"] })).rejects.toThrow(
      /pattern 2, "b\*", matches empty text/,
    );
    await expect(redacted(trace, { patterns: ["(a"] })).rejects.toThrow(
      /pattern 1, "\(a", is neither built in/,
    );
    await expect(redacted(trace, { patterns: ["(a)\\1"] })).rejects.toThrow(/neither built in/);
  });

  const numbered = <T>(count: number, one: (number: number) => T): T[] =>
    Array.from({ length: count }, (_, number) => one(number));
  test.each<[string, (count: number) => unknown, Asked]>([
    [
      "an expression that makes others run for ever",
      (count) => `${"a".repeat(count)}!`,
      { patterns: ["(a+)+$", "(a|aa)+c"] },
    ],
    [
      "an expression that each end of the text fits",
      (count) => `n ${"1234".repeat(count)}`,
      { patterns: ["[0-9]{4}$"] },
    ],
    [
      "names of members that all go",
      (count) => Object.fromEntries(numbered(count, (number) => [`u${number}@x.example`, 1])),
      { patterns: ["email"] },
    ],
    [
      "values that begin alike",
      (count) => numbered(count, (number) => ({ email: `user${number}@x.example` })),
      { fields: ["email"] },
    ],
    [
      "a list that is full of matches",
      (count) => numbered(count, () => "my horse"),
      { patterns: ["my horse"] },
    ],
    ["names within names", (count) => `token:${"[token:".repeat(count)}`, { fields: ["token"] }],
  ])("%s takes time in proportion to the text", async (_, content, asked) => {
    const work = async (count: number) =>
      redacted(await traceOf([observed(JSON.stringify(content(count)))]), asked);
    expect(await growth(20_000, work)).toBeLessThan(LINEAR_BELOW);
  });
});

test("for any JSON, redacting again changes nothing, and the JSON stays JSON of the same form (B66)", async () => {
  const secrets = ["hunter2hunter", "a@b.example", "4111 1111 1111 1111", 'qu"ote\\'];
  const leaf = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.constantFrom(...secrets, ...secrets.map((text) => btoa(text))),
    fc.constant(null),
  );
  const anyJson = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      leaf,
      fc.array(tie("value")),
      fc.dictionary(fc.constantFrom("password", "n", "t", ...secrets), tie("value")),
    ),
  })).value;
  const asked = { fields: ["password"], patterns: ["email", "credit_card", "h.nter\\d"] };
  await fc.assert(
    fc.asyncProperty(anyJson, async (value) => {
      const json = JSON.stringify({ password: "hunter2hunter", value });
      const once = await redactedJson(json, asked);
      expect(await redactedJson(once, asked)).toBe(once);
      expect(shapeOf(JSON.parse(once))).toBe(shapeOf(JSON.parse(json)));
      for (const secret of secrets.slice(0, 3)) expect(once).not.toContain(secret);
    }),
    { numRuns: 60 },
  );
});

/** Kinds of values and how many members there are, not what they are. */
function shapeOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(shapeOf)}]`;
  if (typeof value === "object" && value !== null) return `{${Object.values(value).map(shapeOf).sort()}}`;
  return value === null ? "null" : "leaf";
}
