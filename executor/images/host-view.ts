import { readFile } from "node:fs/promises";
import { arch, release } from "node:os";
import type { Digest } from "#core/ids.ts";
import { jsonDigest, sha256 } from "#core/json.ts";

/**
 * Names the `host` image in evidence: the digest of a description of the host's system, not of its files. It is
 * equal where distribution, package database, kernel and architecture are, so that two results can be told to come
 * from like systems; who needs the files themselves attested uses an imported image.
 */
export async function hostViewDigest(): Promise<Digest> {
  const [system, packages] = await Promise.all([
    readFile("/etc/os-release").catch(() => null),
    readFile("/var/lib/dpkg/status").catch(() => null),
  ]);
  return jsonDigest({
    view: "host",
    arch: arch(),
    kernel: release(),
    os_release: system && (await sha256(system)),
    packages: packages && (await sha256(packages)),
  });
}
