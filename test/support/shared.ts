import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "vitest";

/** Vectors and data that nobody here wrote, beside the checkout and not in it; `DSEC_SHARED` says where else. */
export const SHARED_FOLDER = process.env.DSEC_SHARED ?? resolve(import.meta.dirname, "../../../shared");

/**
 * The path of shared test data. Where it is missing the suite says so: on CI by failing, and elsewhere by a skipped
 * test that names what was left out, so that a short list of passes never looks like a whole one.
 */
export function sharedPath(path: string): string | null {
  const full = join(SHARED_FOLDER, path);
  if (existsSync(full)) return full;
  const missing = `${full} is not there; set DSEC_SHARED to the folder that holds ${path}`;
  if (process.env.CI === "true") throw new Error(missing);
  test.skip(`LEFT OUT: ${missing}`, () => {});
  return null;
}
