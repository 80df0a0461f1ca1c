/** The folder of the certificates that the sandboxes of one attempt are to trust. */
import { rmSync, writeFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Policy } from "#core/wire/policy.ts";
import { Authority } from "./authority.ts";
import { TRUST_NAME, trustedCertificates } from "./environment.ts";

const MODE = 0o444;

export function trustFolderIn(directory: string): string {
  return join(directory, "trust");
}

/** Makes it for an authority that no sandbox had before, which alone is trusted. @param directory an attempt's private folder */
export async function layTrust(directory: string): Promise<Authority> {
  const authority = new Authority();
  const folder = trustFolderIn(directory);
  await mkdir(folder, { mode: 0o755 });
  await writeFile(join(folder, TRUST_NAME), authority.certificate, { mode: MODE });
  return authority;
}

/** Adds what the policy needs. To be done before there is a sandbox. */
export function extendTrust(directory: string, authority: Authority, policy: Policy): void {
  const trusted = trustedCertificates(authority, policy);
  if (trusted === authority.certificate) return;
  const path = join(trustFolderIn(directory), TRUST_NAME);
  rmSync(path);
  writeFileSync(path, trusted, { mode: MODE });
}
