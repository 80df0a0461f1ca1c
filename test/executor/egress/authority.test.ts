import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkServerIdentity, connect, rootCertificates, TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { loadPolicy } from "#core/policy/compile.ts";
import { canonicalHost } from "#core/policy/host.ts";
import { Authority } from "#executor/egress/authority.ts";
import { trustedCertificates } from "#executor/egress/environment.ts";

let authority: Authority;
let folder: string;
beforeAll(() => {
  authority = new Authority();
  folder = mkdtempSync(join(tmpdir(), "dsec-authority-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The leaf that a handshake shows to a client which trusts `ca` and expects `name`; rejects as the client does. */
async function leafShown(host: string, name: string, ca: string): Promise<X509Certificate> {
  const secureContext = authority.contextFor(canonicalHost(host));
  const server = createServer((socket) => {
    new TLSSocket(socket, { isServer: true, secureContext }).on("error", () => socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect({
    port: (server.address() as AddressInfo).port,
    host: "127.0.0.1",
    checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate),
    ca,
  });
  try {
    await once(socket, "secureConnect");
    return new X509Certificate(socket.getPeerCertificate().raw);
  } finally {
    socket.destroy();
    server.close();
  }
}

describe("the authority of one sandbox", () => {
  for (const [host, name] of [
    ["tools.test", "tools.test"],
    ["TOOLS.test.", "tools.test"],
    ["bücher.test", "xn--bcher-kva.test"],
    [`${"a".repeat(63)}.${"b".repeat(63)}.test`, `${"a".repeat(63)}.${"b".repeat(63)}.test`],
    ["under_score.test", "under_score.test"],
    ["127.0.0.1", "127.0.0.1"],
    ["[2001:db8::1]", "2001:db8::1"],
    ["[::ffff:192.0.2.1]", "192.0.2.1"],
  ] as const) {
    test(`is ${host} to those who trust it`, async () => {
      const leaf = await leafShown(host, name, authority.certificate);
      expect(leaf.ca).toBe(false);
      expect(leaf.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1"]); // extended key usage: server authentication
    });
  }

  test("is nobody to those who trust another sandbox's, or the public authorities", async () => {
    const other = new Authority();
    for (const ca of [other.certificate, rootCertificates.join("\n")]) {
      await expect(leafShown("tools.test", "tools.test", ca)).rejects.toThrow(/unable to verify|self-signed/);
    }
  });

  test("shows a certificate for the one host that was asked for, and not for those below or above it", async () => {
    for (const name of ["a.tools.test", "test", "127.0.0.1"]) {
      await expect(leafShown("tools.test", name, authority.certificate)).rejects.toMatchObject({
        code: "ERR_TLS_CERT_ALTNAME_INVALID",
      });
    }
  });

  test("passes OpenSSL's strict verification (RFC 5280), and can vouch for no further authority", async () => {
    const leaf = await leafShown("tools.test", "tools.test", authority.certificate);
    const paths = { ca: join(folder, "ca.pem"), leaf: join(folder, "leaf.pem") };
    writeFileSync(paths.ca, authority.certificate);
    writeFileSync(paths.leaf, leaf.toString());
    const checks = [
      "-x509_strict",
      "-purpose",
      "sslserver",
      "-verify_hostname",
      "tools.test",
      "-policy_check",
    ];
    const said = execFileSync("openssl", ["verify", ...checks, "-CAfile", paths.ca, paths.leaf]).toString();
    expect(said).toBe(`${paths.leaf}: OK\n`);
    const text = execFileSync("openssl", ["x509", "-in", paths.ca, "-noout", "-text"]).toString();
    expect(text).toMatch(/Basic Constraints: critical\s+CA:TRUE, pathlen:0/);
    expect(text).toMatch(/Key Usage: critical\s+Certificate Sign, CRL Sign/);
    expect(text).toContain("NIST CURVE: P-256");
  });

  test("is valid now, for the longest task, and not for much longer; no leaf outlives it", async () => {
    const ca = new X509Certificate(authority.certificate);
    const leaf = await leafShown("tools.test", "tools.test", authority.certificate);
    const nowMs = Date.now();
    expect(ca.validFromDate.getTime()).toBeLessThan(nowMs);
    expect(ca.validFromDate.getTime()).toBeGreaterThan(nowMs - 2 * 3_600_000);
    expect(ca.validToDate.getTime()).toBeGreaterThan(nowMs + LIMITS.timeoutMsMax);
    expect(ca.validToDate.getTime()).toBeLessThan(nowMs + LIMITS.timeoutMsMax + 2 * 24 * 3_600_000);
    expect(leaf.validToDate.getTime()).toBeLessThanOrEqual(ca.validToDate.getTime());
  });

  test("is fresh for half a day, and not before it was made, where the clock was set back", () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      const madeAtMs = Date.now();
      const made = new Authority();
      const isFreshAfter = (hours: number) => {
        vi.setSystemTime(madeAtMs + hours * 3_600_000);
        return made.isFresh;
      };
      expect([0, 11, 13, -1].map(isFreshAfter)).toEqual([true, true, false, false]);
    } finally {
      vi.useRealTimers();
    }
  });

  test("makes the certificate of a host once, and never two with one serial number", async () => {
    const once = authority.contextFor(canonicalHost("once.test"));
    expect(authority.contextFor(canonicalHost("ONCE.test"))).toBe(once);
    const hosts = Array.from({ length: 5 }, (_, index) => `serial${index}.test`);
    const leaves = await Promise.all(hosts.map((host) => leafShown(host, host, authority.certificate)));
    expect(new Set(leaves.map((leaf) => leaf.serialNumber)).size).toBe(5);
  });
});

describe("what a sandbox trusts", () => {
  test("is its own authority alone, while every TLS connection is opened", () => {
    const policy = loadPolicy({ rules: [{ host: "tools.test" }] });
    expect(trustedCertificates(authority, policy)).toBe(authority.certificate);
  });

  test("is the public authorities too, where the policy lets TLS through unopened", () => {
    const policy = loadPolicy({ rules: [{ host: "tools.test" }, { host: "github.com", opaque: true }] });
    const trusted = trustedCertificates(authority, policy);
    expect(trusted.match(/BEGIN CERTIFICATE/g)?.length).toBe(rootCertificates.length + 1);
    for (const pem of trusted.match(/-----BEGIN.*?-----END CERTIFICATE-----/gs)!) new X509Certificate(pem);
  });
});
