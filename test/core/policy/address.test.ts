import { BlockList, isIP } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { contains, formatAddress, judgeAddress, parseAddress, parseCidr } from "#core/policy/address.ts";

/** First and last address of each special range, and the public neighbours of its ends where there are any. */
test.each([
  ["0.0.0.0", "0.255.255.255", null, "1.0.0.0"],
  ["10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"],
  ["100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"],
  ["127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"],
  ["169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"],
  ["172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"],
  ["192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"],
  ["192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"],
  ["192.31.196.0", "192.31.196.255", "192.31.195.255", "192.31.197.0"],
  ["192.52.193.0", "192.52.193.255", "192.52.192.255", "192.52.194.0"],
  ["192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"],
  ["192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"],
  ["192.175.48.0", "192.175.48.255", "192.175.47.255", "192.175.49.0"],
  ["198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"],
  ["198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"],
  ["203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"],
  ["224.0.0.0", "255.255.255.255", "223.255.255.255", null],
  ["168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"],
  ["::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", null, "2000::"],
  [
    "2001::",
    "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:200::",
  ],
  [
    "2001:db8::",
    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db9::",
  ],
  ["2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"],
  [
    "2620:4f:8000::",
    "2620:4f:8000:ffff:ffff:ffff:ffff:ffff",
    "2620:4f:7fff:ffff:ffff:ffff:ffff:ffff",
    "2620:4f:8001::",
  ],
  [
    "3fff::",
    "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
    "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "3fff:1000::",
  ],
  ["4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", null],
])("%s to %s is special, and what lies beside it is public", (first, last, before, after) => {
  const kind = (text: string | null) => text && judgeAddress(parseAddress(text)!).kind;
  expect([kind(before), kind(first), kind(last), kind(after)]).toEqual([
    before && "public",
    "special",
    "special",
    after && "public",
  ]);
});

test("a judgement names the range and what it is for", () => {
  const said = (text: string) => judgeAddress(parseAddress(text)!);
  expect(said("169.254.169.254")).toMatchObject({
    range: "169.254.0.0/16",
    reason: expect.stringContaining("link-local"),
  });
  expect(said("::ffff:10.1.2.3")).toMatchObject({
    range: "10.0.0.0/8",
    reason: expect.stringContaining("private"),
  });
  expect(said("64:ff9b::7f00:1")).toMatchObject({
    range: "127.0.0.0/8",
    reason: expect.stringContaining("loopback"),
  });
  expect(said("2001:2::1")).toMatchObject({
    range: "2001:2::/48",
    reason: expect.stringContaining("benchmarking"),
  });
  expect(said("2001:0:1::")).toMatchObject({ range: "2001::/32", reason: expect.stringContaining("Teredo") });
  expect(said("4000::")).toMatchObject({ range: "::/0", reason: expect.stringContaining("global unicast") });
});

test("text is an address here exactly where the operating system's parser takes it, zone ids aside", () => {
  const piece = fc.constantFrom(
    "0",
    "1",
    "00",
    "ffff",
    "10000",
    "255",
    "256",
    ":",
    "::",
    ".",
    "1.2.3.4",
    "g",
    "%lo",
    " ",
  );
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join("")),
      (text) => {
        const address = parseAddress(text);
        expect(address !== null, text).toBe(isIP(text) !== 0 && !text.includes("%"));
        if (address !== null) expect(address.length).toBe(isIP(text) === 4 ? 4 : 16);
      },
    ),
    { numRuns: 5000 },
  );
});

test("a block holds the addresses that Node's block list says it holds", () => {
  const width = fc.constantFrom<4 | 16>(4, 16);
  const drawn = width.chain((length) => {
    const bytes = fc.uint8Array({ minLength: length, maxLength: length });
    return fc.tuple(bytes, fc.integer({ min: 0, max: length * 8 }), fc.nat(length * 8 - 1));
  });
  fc.assert(
    fc.property(drawn, ([address, bits, flipped]) => {
      const other = address.slice();
      other[flipped >> 3]! ^= 0x80 >> (flipped & 7);
      const family = address.length === 4 ? "ipv4" : "ipv6";
      const list = new BlockList();
      list.addSubnet(formatAddress(address), bits, family);
      expect(contains({ address, bits }, other)).toBe(list.check(formatAddress(other), family));
      expect(contains({ address, bits }, address)).toBe(true);
    }),
  );
});

test.each([
  "10.0.0.0/33",
  "10.0.0.0/08",
  "10.0.0.0/",
  "10.0.0.0/-1",
  "10.0.0.1/8",
  "10/8",
  "::/129",
  "::1/127",
  "/8",
  "",
])("%j is no block", (text) => {
  expect(parseCidr(text)).toBeNull();
});
