import fc from "fast-check";
import { expect, test } from "vitest";
import { formatAddress, judgeAddress, parseAddress } from "#core/policy/address.ts";
import { compilePolicy, loadPolicy } from "#core/policy/compile.ts";
import { decide, decideAddresses } from "#core/policy/decide.ts";
import type { PolicyRequest } from "#core/wire/policy.ts";

const load = (policy: PolicyRequest) => compilePolicy(loadPolicy(policy));

const octets = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255));

/** One part of an IPv4 address as inet_aton(3) takes it. */
const part = (value: number) =>
  fc.constantFrom(
    String(value),
    `0x${value.toString(16)}`,
    `0X${value.toString(16).toUpperCase()}`,
    `0${value.toString(8)}`,
    `0x000${value.toString(16)}`,
  );

/** Every spelling that names the same IPv4 address in a URL: bases, joined parts, full-width digits, mapped IPv6. */
const spelling = ([a, b, c, d]: [number, number, number, number]) => {
  const dotted = fc.oneof(
    fc.tuple(part(a), part(b), part(c), part(d)),
    fc.tuple(part(a), part(b), part(c * 256 + d)),
    fc.tuple(part(a), part(b * 65_536 + c * 256 + d)),
    fc.tuple(part(((a * 256 + b) * 256 + c) * 256 + d)),
  );
  const numeric = fc.tuple(
    dotted,
    fc.constantFrom(".", "。", "．", "｡"),
    fc.constantFrom("", "."),
    fc.boolean(),
  );
  const hex = (value: number) => value.toString(16);
  const [high, low] = [a * 256 + b, c * 256 + d];
  return fc.oneof(
    numeric.map(([parts, dot, root, wide]) => {
      const text = parts.join(dot) + root;
      return wide ? text.replace(/[0-9]/g, (digit) => String.fromCodePoint(0xff10 + Number(digit))) : text;
    }),
    fc.constantFrom(
      `[::ffff:${a}.${b}.${c}.${d}]`,
      `[::ffff:${hex(high)}:${hex(low)}]`,
      `[0:0:0:0:0:FFFF:${hex(high).toUpperCase()}:${hex(low)}]`,
      `[0000:0000:0000:0000:0000:ffff:${hex(high).padStart(4, "0")}:${hex(low).padStart(4, "0")}]`,
    ),
  );
};

test("every spelling of one address gets one decision", () => {
  fc.assert(
    fc.property(
      octets.chain((address) => fc.tuple(fc.constant(address), spelling(address), fc.boolean())),
      ([address, spelt, ruled]) => {
        const dotted = address.join(".");
        const policy = load({ rules: ruled ? [{ host: dotted, plain_http: true }] : [] });
        const plain = decide(policy, { method: "GET", url: `http://${dotted}/` });
        expect(decide(policy, { method: "GET", url: `http://${spelt}/` })).toEqual(plain);
        const isPublic = judgeAddress(Uint8Array.from(address)).kind === "public";
        expect(plain.allowed).toBe(ruled && isPublic);
      },
    ),
    { numRuns: 500 },
  );
});

test("an IPv6 form that carries a special IPv4 address is special", () => {
  const special = octets.filter((address) => judgeAddress(Uint8Array.from(address)).kind === "special");
  fc.assert(
    fc.property(
      fc.oneof(
        special,
        fc.constantFrom<[number, number, number, number]>([127, 0, 0, 1], [169, 254, 169, 254]),
      ),
      fc.uint8Array({ minLength: 16, maxLength: 16 }),
      ([a, b, c, d], rest) => {
        const ipv4 = [a, b, c, d];
        const wrapped = [
          [...new Array<number>(12).fill(0), ...ipv4],
          [...new Array<number>(10).fill(0), 255, 255, ...ipv4],
          [...new Array<number>(8).fill(0), 255, 255, 0, 0, ...ipv4],
          [0, 0x64, 0xff, 0x9b, ...new Array<number>(8).fill(0), ...ipv4],
          [0, 0x64, 0xff, 0x9b, 0, 1, ...rest.subarray(0, 6), ...ipv4],
          [0x20, 2, ...ipv4, ...rest.subarray(0, 10)],
          [0x20, 1, 0, 0, ...rest.subarray(0, 8), ...ipv4.map((byte) => byte ^ 255)],
          [0x26, ...rest.subarray(0, 7), 2, 0, 0x5e, 0xfe, ...ipv4],
        ];
        for (const bytes of wrapped) {
          expect(judgeAddress(Uint8Array.from(bytes)).kind, formatAddress(Uint8Array.from(bytes))).toBe(
            "special",
          );
        }
      },
    ),
  );
});

test("an address reads back as itself, and the URL standard writes it the same", () => {
  const bytes = fc.oneof(
    fc.uint8Array({ minLength: 4, maxLength: 4 }),
    fc.uint8Array({ minLength: 16, maxLength: 16 }),
    // runs of zeros, where the canonical text has its corners
    fc
      .array(fc.constantFrom(0, 0, 0, 1, 255), { minLength: 16, maxLength: 16 })
      .map((all) => Uint8Array.from(all)),
  );
  fc.assert(
    fc.property(bytes, (address) => {
      const text = formatAddress(address);
      expect(parseAddress(text)).toEqual(address);
      const inUrl = address.length === 4 ? text : `[${text}]`;
      expect(new URL(`http://${inUrl}/`).hostname).toBe(inUrl);
    }),
    { numRuns: 1000 },
  );
});

const label = fc.stringMatching(/^[a-z0-9]{1,8}$/).filter((text) => !/^(0x|\d+$)/.test(text));
const name = fc.array(label, { minLength: 2, maxLength: 4 }).map((labels) => `${labels.join(".")}.test`);
const rule = fc
  .record(
    {
      host: fc.oneof(
        name,
        name.map((suffix) => `*.${suffix}`),
      ),
      port: fc.constantFrom(443, 8443),
      methods: fc.constantFrom<string[][]>(["GET"], ["POST", "GET"]),
      path_prefix: fc.constantFrom("/", "/a", "/a/b/"),
      plain_http: fc.boolean(),
      allow_private: fc.constantFrom<string[][]>(["127.0.0.1"], ["10.0.0.0/8"]),
    },
    { requiredKeys: ["host"] },
  )
  .map((each) => each as NonNullable<PolicyRequest["rules"]>[number]);

test("a further rule never takes back what the others allow, nor opens a host that it does not name", () => {
  fc.assert(
    fc.property(
      fc.array(rule, { maxLength: 6 }),
      rule,
      fc.constantFrom("GET", "POST", "DELETE"),
      fc.constantFrom("https", "http"),
      fc.constantFrom("", ":8443"),
      fc.constantFrom("/", "/a", "/a/b/c", "/ab"),
      fc.oneof(
        name,
        label.map((first) => `${first}.`),
      ),
      fc.constantFrom("93.184.216.34", "127.0.0.1", "10.1.2.3"),
      fc.nat(),
      (rules, further, method, scheme, port, path, other, address, pick) => {
        // Half of the hosts lie under some rule, so that there is something to take back.
        const named = [...rules, further][pick % (rules.length + 1)]!.host.replace(/^\*\./, "x.");
        const host = pick % 2 === 0 ? named : other.endsWith(".") ? `${other}${named}` : other;
        const before = load({ rules });
        const after = load({ rules: [...rules, further] });
        const call = { method, url: `${scheme}://${host}${port}${path}` };
        const [was, is] = [decide(before, call), decide(after, call)];
        const covers = further.host.startsWith("*.")
          ? host.endsWith(further.host.slice(1))
          : host === further.host;
        if (was.allowed) {
          expect(is.allowed).toBe(true);
          if (!is.allowed) return;
          const reached = decideAddresses(was, [address]).allowed;
          expect(decideAddresses(is, [address]).allowed || !reached).toBe(true);
        }
        if (!covers) expect(is.allowed).toBe(was.allowed);
      },
    ),
    { numRuns: 500 },
  );
});

test("letter case and the root dot never change a decision", () => {
  fc.assert(
    fc.property(
      fc.array(rule, { minLength: 1, maxLength: 4 }),
      fc.nat(),
      fc.array(fc.boolean()),
      (rules, pick, upper) => {
        const policy = load({ rules });
        const host = rules[pick % rules.length]!.host.replace("*", "x");
        const shouted = [...host]
          .map((char, i) => (upper[i % (upper.length || 1)] ? char.toUpperCase() : char))
          .join("");
        const plain = decide(policy, { method: "GET", url: `https://${host}/a` });
        for (const spelt of [shouted, `${host}.`, `${shouted}.`]) {
          expect(decide(policy, { method: "GET", url: `https://${spelt}/a` })).toEqual(plain);
        }
      },
    ),
  );
});

test("no text makes a decision throw, and what is allowed names a host of the rules", () => {
  const policy = load({ rules: [{ host: "a.test" }, { host: "*.b.test", plain_http: true }] });
  const piece = fc.oneof(
    fc.constantFrom(
      "a.test",
      "x.b.test",
      "b.test",
      "//",
      "/",
      "\\",
      "@",
      ":",
      "#",
      "?",
      "%2e",
      "..",
      "[::1]",
      ":80",
      "。",
    ),
    fc.string({ unit: "binary", maxLength: 4 }),
  );
  const url = fc
    .tuple(fc.constantFrom("https://", "http://", "https:", ""), fc.array(piece, { maxLength: 6 }))
    .map(([scheme, pieces]) => scheme + pieces.join(""));
  fc.assert(
    fc.property(url, (text) => {
      const decision = decide(policy, { method: "GET", url: text });
      if (!decision.allowed) return;
      expect(decision.target.host.text).toMatch(/^(a\.test|([a-z0-9_-]+\.)+b\.test)$/);
      expect(new URL(text).hostname.replace(/\.$/, "")).toBe(decision.target.host.text);
    }),
    { numRuns: 2000 },
  );
});
