/** Makes the template of embedded databases anew where the one there is of another version: each database would be. */
import { execFileSync } from "node:child_process";
import { isTemplateCurrent } from "#gateway/node/pglite-template.ts";

export function setup(): void {
  if (isTemplateCurrent()) return;
  // Runs side by side in one checkout would write the same folder.
  execFileSync("flock", ["build/setup.lock", process.execPath, "setup/pglite-template.ts"], {
    stdio: "inherit",
  });
}
