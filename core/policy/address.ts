/**
 * IP addresses as bytes, and whether one lies on the public Internet. What is not plainly public is special: a
 * gateway that connected there would reach itself, its neighbours or its cloud's metadata (SSRF).
 */

/** 4 or 16 bytes in network order. */
export type Address = Uint8Array;

export type Judgement =
  | { kind: "public" }
  /** `range` is the CIDR that holds the address, `reason` what that range is for. */
  | { kind: "special"; range: string; reason: string };

/**
 * Public, or the special range that holds the address. An IPv6 form that stands for an IPv4 address is judged as
 * that address; forms that tunnel through a relay (6to4, Teredo) are special whatever they carry.
 */
export function judgeAddress(address: Address): Judgement {
  const standsFor = carriedBy(IPV4_IN_IPV6, address);
  if (standsFor !== null) return judgeAddress(standsFor);
  const special = (address.length === 4 ? SPECIAL_IPV4 : SPECIAL_IPV6).find(({ cidr }) =>
    contains(cidr, address),
  );
  if (special !== undefined)
    return { kind: "special", range: formatCidr(special.cidr), reason: special.reason };
  if (address.length === 16) {
    if (!contains(GLOBAL_UNICAST, address)) {
      return { kind: "special", range: "::/0", reason: "outside global unicast, 2000::/3" };
    }
    const isatap = isatapAddress(address);
    if (isatap !== null) return judgeAddress(isatap);
  }
  return { kind: "public" };
}

/**
 * The address that a connection really goes to: an IPv4-mapped address (`::ffff:a.b.c.d`) is the IPv4 address, as
 * ipv6(7) says; every other one is itself.
 */
export function effectiveAddress(address: Address): Address {
  return carriedBy([MAPPED], address) ?? address;
}

/** A block of addresses: the first `bits` of `address` are fixed. */
export type Cidr = { address: Address; bits: number };

export function contains(cidr: Cidr, address: Address): boolean {
  if (cidr.address.length !== address.length) return false;
  const whole = cidr.bits >> 3;
  for (let i = 0; i < whole; i++) if (cidr.address[i] !== address[i]) return false;
  const rest = cidr.bits & 7;
  return rest === 0 || (cidr.address[whole]! ^ address[whole]!) >> (8 - rest) === 0;
}

/** Whether every address of `inner` lies in `outer`. */
export function containsCidr(outer: Cidr, inner: Cidr): boolean {
  return inner.bits >= outer.bits && contains(outer, inner.address);
}

/** The special block that holds the whole of a block, or undefined: where some of it is public, or it spans several. */
export function specialRangeOf(cidr: Cidr): Cidr | undefined {
  return (cidr.address.length === 4 ? SPECIAL_IPV4 : SPECIAL_IPV6).find((special) =>
    containsCidr(special.cidr, cidr),
  )?.cidr;
}

/**
 * Reads an address as resolvers and sockets write it: four decimal octets without leading zeros, or the text of
 * RFC 4291 section 2.2. Null for anything else, zone ids and other IPv4 spellings included.
 */
export function parseAddress(text: string): Address | null {
  return text.includes(":") ? parseIpv6(text) : parseIpv4(text);
}

/** Reads `10.0.0.0/8`, or one address as a block of itself. Null where it is neither, or bits after the prefix are set. */
export function parseCidr(text: string): Cidr | null {
  const slash = text.indexOf("/");
  const address = parseAddress(slash < 0 ? text : text.slice(0, slash));
  if (address === null) return null;
  const width = address.length * 8;
  if (slash < 0) return { address, bits: width };
  const digits = text.slice(slash + 1);
  if (!/^(0|[1-9][0-9]{0,2})$/.test(digits) || Number(digits) > width) return null;
  const cidr = { address, bits: Number(digits) };
  return firstOf(cidr).every((byte, i) => byte === address[i]) ? cidr : null;
}

/** Dotted decimal, or the canonical text of RFC 5952 (lower case, the longest run of zeros as `::`). */
export function formatAddress(address: Address): string {
  if (address.length === 4) return address.join(".");
  const groups: number[] = [];
  for (let i = 0; i < 16; i += 2) groups.push((address[i]! << 8) | address[i + 1]!);
  let longest = { start: -1, length: 1 };
  for (let start = 0; start < 8; start++) {
    let length = 0;
    while (groups[start + length] === 0) length++;
    if (length > longest.length) longest = { start, length };
  }
  const hex = groups.map((group) => group.toString(16));
  if (longest.start < 0) return hex.join(":");
  return `${hex.slice(0, longest.start).join(":")}::${hex.slice(longest.start + longest.length).join(":")}`;
}

export function formatCidr(cidr: Cidr): string {
  return `${formatAddress(cidr.address)}/${cidr.bits}`;
}

const IPV4 = /^(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})$/;

function parseIpv4(text: string): Address | null {
  const octets = IPV4.exec(text)?.slice(1).map(Number);
  return octets === undefined || octets.some((octet) => octet > 255) ? null : Uint8Array.from(octets);
}

function parseIpv6(text: string): Address | null {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const [head, tail] = halves.map(groupBytes);
  if (!head || tail === null) return null;
  if (tail === undefined) return head.length === 16 ? Uint8Array.from(head) : null;
  // An IPv4 tail belongs at the end only, and `::` stands for at least one group.
  if (halves[0]!.includes(".") || head.length + tail.length > 14) return null;
  const address = new Uint8Array(16);
  address.set(head);
  address.set(tail, 16 - tail.length);
  return address;
}

function groupBytes(text: string): number[] | null {
  const bytes: number[] = [];
  const groups = text === "" ? [] : text.split(":");
  for (const [i, group] of groups.entries()) {
    const ipv4 = i === groups.length - 1 && group.includes(".") ? parseIpv4(group) : null;
    if (ipv4 !== null) bytes.push(...ipv4);
    else if (/^[0-9A-Fa-f]{1,4}$/.test(group))
      bytes.push(Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255);
    else return null;
  }
  return bytes;
}

function firstOf(cidr: Cidr): Address {
  return cidr.address.map((byte, i) => {
    const kept = Math.min(8, Math.max(0, cidr.bits - i * 8));
    return byte & (0xff << (8 - kept));
  });
}

function carriedBy(prefixes: Cidr[], address: Address): Address | null {
  return prefixes.some((prefix) => contains(prefix, address)) ? address.subarray(12) : null;
}

/** RFC 5214 section 6.1: an interface identifier of 00-00-5E-FE or 02-00-5E-FE and then the IPv4 address. */
function isatapAddress(address: Address): Address | null {
  const marked =
    (address[8]! & 0xfd) === 0 && address[9] === 0 && address[10] === 0x5e && address[11] === 0xfe;
  return marked ? address.subarray(12) : null;
}

function block(text: string): Cidr {
  const cidr = parseCidr(text);
  if (cidr === null) throw new Error(`bug: ${text} is not a CIDR`);
  return cidr;
}

const MAPPED = block("::ffff:0:0/96");
/** RFC 4291 section 2.5.5.2 and RFC 6052 section 2.1: the last four bytes are the IPv4 destination. */
const IPV4_IN_IPV6 = [MAPPED, block("64:ff9b::/96")];
const GLOBAL_UNICAST = block("2000::/3");

type Special = { cidr: Cidr; reason: string };

function table(rows: [cidr: string, reason: string][]): Special[] {
  return rows.map(([cidr, reason]) => ({ cidr: block(cidr), reason }));
}

/**
 * IANA IPv4 Special-Purpose Address Registry (RFC 6890) and multicast (RFC 5771). Blocks that the registry calls
 * globally reachable are here as well: they are anycast to whatever happens to be near.
 */
const SPECIAL_IPV4 = table([
  ["0.0.0.0/8", "this network (RFC 791)"],
  ["10.0.0.0/8", "private (RFC 1918)"],
  ["100.64.0.0/10", "shared address space of carriers (RFC 6598)"],
  ["127.0.0.0/8", "loopback (RFC 1122)"],
  ["169.254.0.0/16", "link-local, and cloud metadata (RFC 3927)"],
  ["172.16.0.0/12", "private (RFC 1918)"],
  ["192.0.0.0/24", "IETF protocol assignments (RFC 6890)"],
  ["192.0.2.0/24", "documentation (RFC 5737)"],
  ["192.31.196.0/24", "AS112 anycast (RFC 7535)"],
  ["192.52.193.0/24", "AMT anycast (RFC 7450)"],
  ["192.88.99.0/24", "6to4 relay anycast (RFC 7526)"],
  ["192.168.0.0/16", "private (RFC 1918)"],
  ["192.175.48.0/24", "AS112 anycast (RFC 7534)"],
  ["198.18.0.0/15", "benchmarking (RFC 2544)"],
  ["198.51.100.0/24", "documentation (RFC 5737)"],
  ["203.0.113.0/24", "documentation (RFC 5737)"],
  ["224.0.0.0/4", "multicast (RFC 5771)"],
  ["255.255.255.255/32", "limited broadcast (RFC 919)"],
  ["240.0.0.0/4", "reserved (RFC 1112)"],
  // Not IANA's: a public address that inside Azure is the host's own metadata and configuration service.
  ["168.63.129.16/32", "cloud metadata of Azure"],
]);

/** IANA IPv6 Special-Purpose Address Registry (RFC 6890), multicast (RFC 4291) and what was retired. */
const SPECIAL_IPV6 = table([
  ["::/128", "unspecified (RFC 4291)"],
  ["::1/128", "loopback (RFC 4291)"],
  ["::/96", "IPv4-compatible, retired (RFC 4291)"],
  ["::ffff:0:0:0/96", "IPv4-translated (RFC 2765)"],
  ["64:ff9b:1::/48", "local-use NAT64 (RFC 8215)"],
  ["100::/64", "discard-only (RFC 6666)"],
  ["100:0:0:1::/64", "dummy prefix (RFC 9780)"],
  ["2001::/32", "Teredo tunnel (RFC 4380)"],
  ["2001:2::/48", "benchmarking (RFC 5180)"],
  ["2001::/23", "IETF protocol assignments (RFC 2928)"],
  ["2001:db8::/32", "documentation (RFC 3849)"],
  ["2002::/16", "6to4 tunnel (RFC 3056)"],
  ["2620:4f:8000::/48", "AS112 anycast (RFC 7534)"],
  ["3fff::/20", "documentation (RFC 9637)"],
  ["5f00::/16", "segment routing identifiers (RFC 9602)"],
  ["fc00::/7", "unique local (RFC 4193)"],
  ["fe80::/10", "link-local (RFC 4291)"],
  ["fec0::/10", "site-local, retired (RFC 3879)"],
  ["ff00::/8", "multicast (RFC 4291)"],
]);
