import { execFileSync } from "node:child_process";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NATIVE_PROGRAMS } from "./sandboxes.ts";

let scratch: string;
let copy: string;

/** What a host may have in /etc. */
const SETTINGS = [
  "java-99-openjdk/security/java.security",
  "java-99-openjdk/jvm.cfg",
  "ld.so.cache",
  "ld.so.conf.d/local.conf",
  "ssl/openssl.cnf",
  "ssl/certs/authority.pem",
  "fonts/conf.d/10-hinting.conf",
  "python3.99/sitecustomize.py",
  "perl/Net/libnet.cfg",
  "default/useradd",
  "login.defs",
  "pam.d/common-password",
  "pam.d/passwd",
  "apt/trusted.gpg.d/archive.asc",
  "maven/m2.conf",
];
/** Of this machine, its users and its services, or a secret. */
const LEFT_OUT = [
  "shadow",
  "gshadow-",
  "passwd",
  "hostname",
  "machine-id",
  "environment",
  "ssh/ssh_host_ed25519_key",
  "ssl/private/host.pem",
  "ssl/certs/host.key",
  "java-99-openjdk/management/jmxremote.password",
  "java-99-openjdk/security/site.jks",
  "default/web-service",
  "apt/sources.list",
  "apt/auth.conf.d/mirror.conf",
  "apt/apt.conf.d/proxy",
  "maven/settings.xml",
  "pip.conf",
  "npmrc",
  "gitconfig",
  "security/opasswd",
  "postgresql/pg_hba.conf",
  "krb5.keytab",
];

beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), "dsec-configuration-"));
  const etc = join(scratch, "etc");
  copy = join(scratch, "copy");
  const write = (path: string, text: string, mode = 0o644) => {
    mkdirSync(dirname(join(etc, path)), { recursive: true });
    writeFileSync(join(etc, path), text);
    chmodSync(join(etc, path), mode);
  };
  for (const path of [...SETTINGS, ...LEFT_OUT]) write(path, `${path}\n`);
  write("java-99-openjdk/agent.sh", "#!/bin/sh\n", 0o4777);
  write("java-99-openjdk/only-for-root", "not for all\n", 0o640);
  write("fonts/site/local.conf", "below a folder that is not for all\n");
  chmodSync(join(etc, "fonts/site"), 0o750);
  write("ssl/certs/site.pem", "-----BEGIN RSA PRIVATE KEY-----\nMII\n");
  write("java-99-openjdk/large", "x".repeat(5 << 20));
  mkdirSync(join(etc, "alternatives"));
  symlinkSync("/usr/lib/jvm/java-99/bin/java", join(etc, "alternatives/java"));
  symlinkSync("/etc/shadow", join(etc, "ssl/certs/link.pem"));
  execFileSync("mkfifo", [join(etc, "fonts/fifo")]);
  mkdirSync(copy);
  execFileSync(join(NATIVE_PROGRAMS, "host_configuration_test"), [etc, copy], {
    stdio: ["ignore", "ignore", "inherit"],
  });
});
afterAll(() => rmSync(scratch, { recursive: true }));

test("settings of programs are chosen by their kind, whatever version they are of", () => {
  for (const path of SETTINGS) expect(readFileSync(join(copy, path), "utf8")).toBe(`${path}\n`);
});

test("nothing of the machine, its users or its services, nor a secret, comes along", () => {
  const entries = readdirSync(copy, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => !entry.isDirectory());
  const paths = files.map((entry) => join(entry.parentPath, entry.name).slice(copy.length + 1));
  expect(paths.sort()).toEqual(
    [...SETTINGS, "java-99-openjdk/agent.sh", "alternatives/java", "ssl/certs/link.pem"].sort(),
  );
});

test("a link stays a link: what it names on the host is not read", () => {
  expect(readlinkSync(join(copy, "alternatives/java"))).toBe("/usr/lib/jvm/java-99/bin/java");
  expect(readlinkSync(join(copy, "ssl/certs/link.pem"))).toBe("/etc/shadow");
});

test("a file can be executed as it could be, and has no set-user-ID bit and no other writer", () => {
  expect(statSync(join(copy, "java-99-openjdk/agent.sh")).mode & 0o7777).toBe(0o755);
  expect(statSync(join(copy, "login.defs")).mode & 0o7777).toBe(0o644);
});
