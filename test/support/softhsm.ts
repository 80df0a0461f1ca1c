/** A real HSM module for tests: SoftHSM2 with one initialised token in a folder of its own. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const SOFTHSM_LIBRARY = "/usr/lib/softhsm/libsofthsm2.so";

/** Returns the folder, which the caller removes; SOFTHSM2_CONF of this process and its children names it. */
export function makeSoftHsmToken({ label, pin }: { label: string; pin: string }): string {
  const folder = mkdtempSync(join(tmpdir(), "dsec-softhsm-"));
  const tokens = join(folder, "tokens");
  mkdirSync(tokens);
  process.env.SOFTHSM2_CONF = join(folder, "softhsm2.conf");
  writeFileSync(
    process.env.SOFTHSM2_CONF,
    `directories.tokendir = ${tokens}\nobjectstore.backend = file\nlog.level = ERROR\n`,
  );
  const pins = ["--so-pin", "5829-so-pin", "--pin", pin];
  execFileSync("softhsm2-util", ["--init-token", "--free", "--label", label, ...pins]);
  return folder;
}
