/** Builds the guest programs and the C++ test programs before any test runs: two makes at once would write the same files. */
import { execFileSync } from "node:child_process";

export function setup(): void {
  execFileSync("make", ["--silent", "-C", "native", "check"], { stdio: ["ignore", "ignore", "inherit"] });
}
