import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { cleanUp } from "#trace/node/clean-up.ts";

const NOW_MS = Date.parse("2026-11-20T00:00:00Z");
const DAY_MS = 86_400_000;

const root = mkdtempSync(join(tmpdir(), "clean-up-"));
afterAll(() => rmSync(root, { recursive: true }));
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(root, "case-"));
});

function made(path: string, ageDays: number): string {
  const full = join(folder, path);
  mkdirSync(dirname(full), { recursive: true });
  writeFileSync(full, "12345");
  const time = (NOW_MS - ageDays * DAY_MS) / 1000;
  utimesSync(full, time, time);
  return full;
}

const weekOld = { beforeMs: NOW_MS - 7 * DAY_MS, keepLast: 0, dryRun: false };

describe("cleaning up", () => {
  test("deletes old traces in all folders below, and nothing else", () => {
    const old = ["a.trace", "x/b.traj", "x/y/c.trace"].map((path) => made(path, 8));
    const kept = [
      made("young.trace", 6),
      made("x/notes.txt", 90),
      made("a.trace.bak", 90),
      made("traj", 90),
      made("archive.tar.zst", 90),
    ];
    const result = cleanUp(folder, weekOld, NOW_MS);
    expect(result.deleted.map(({ path }) => path).sort()).toEqual(old.sort());
    expect(result).toMatchObject({ kept: 1, skipped: [], failed: [] });
    for (const path of kept) expect(existsSync(path)).toBe(true);
    for (const path of old) expect(existsSync(path)).toBe(false);
  });

  test("keeps the newest n over all folders, whatever their age", () => {
    for (let age = 1; age <= 6; age++) made(`${age % 2 === 0 ? "x/" : ""}${age}.trace`, 10 + age);
    const result = cleanUp(folder, { ...weekOld, keepLast: 4 }, NOW_MS);
    expect(result.deleted.map(({ path }) => path)).toEqual([
      join(folder, "5.trace"),
      join(folder, "x/6.trace"),
    ]);
    expect(cleanUp(folder, { beforeMs: null, keepLast: 1, dryRun: false }, NOW_MS).deleted).toHaveLength(3);
    expect(existsSync(join(folder, "1.trace"))).toBe(true);
  });

  test("dry, says the same and deletes nothing", () => {
    for (const path of ["a.trace", "b.trace", "c.trace"]) made(path, 9);
    const rule = { ...weekOld, keepLast: 1 };
    const dry = cleanUp(folder, { ...rule, dryRun: true }, NOW_MS);
    expect(readdirSync(folder)).toHaveLength(3);
    expect(cleanUp(folder, rule, NOW_MS).deleted).toEqual(dry.deleted);
    expect(readdirSync(folder)).toEqual(["a.trace"]);
  });

  test("never touches checkpoints, nor what lies below them", () => {
    const paths = [
      "checkpoints/a.trace",
      "run/Checkpoint-500/deep/b.trace",
      "checkpoint.trace",
      "step_ckpt_3.traj",
      "check_point/c.trace",
    ];
    const kept = paths.map((path) => made(path, 100));
    made("model.ckpt", 100);
    const result = cleanUp(folder, weekOld, NOW_MS);
    expect(result.deleted).toEqual([]);
    expect(result.skipped).toHaveLength(5);
    for (const path of kept) expect(existsSync(path)).toBe(true);
  });

  test("is refused in a checkpoint's folder and below it, also by a path that does not show it", () => {
    const paths = [made("checkpoints/a.trace", 100), made("checkpoints/run/b.trace", 100)];
    symlinkSync(join(folder, "checkpoints"), join(folder, "saved"));
    for (const path of ["checkpoints", "checkpoints/run", "checkpoints/run/.", "saved/run"]) {
      expect(() => cleanUp(`${folder}/${path}`, weekOld, NOW_MS)).toThrow(/whose name says checkpoint/);
    }
    for (const path of paths) expect(existsSync(path)).toBe(true);
  });

  test("leaves a trajectory that was written within the last hour, even where its age would let it go", () => {
    made("live.traj", 0.01);
    made("dead.traj", 0.1);
    const result = cleanUp(folder, { beforeMs: null, keepLast: 0, dryRun: false }, NOW_MS);
    expect(result.deleted.map(({ path }) => path)).toEqual([join(folder, "dead.traj")]);
    expect(result.skipped).toEqual([
      { path: join(folder, "live.traj"), why: expect.stringContaining("may still be") },
    ]);
  });

  test("removes read-only files", () => {
    const path = made("a.trace", 9);
    chmodSync(path, 0o400);
    cleanUp(folder, weekOld, NOW_MS);
    expect(existsSync(path)).toBe(false);
  });
});

describe("links (B70)", () => {
  test("to folders and files are not followed, and their targets stay", () => {
    const target = made("outside/a.trace", 100);
    const inside = join(folder, "runs");
    mkdirSync(inside);
    symlinkSync(join(folder, "outside"), join(inside, "sibling"));
    symlinkSync("../outside", join(inside, "relative"));
    symlinkSync(target, join(inside, "linked.trace"));
    symlinkSync("/nowhere", join(inside, "dangling.trace"));
    const result = cleanUp(inside, weekOld, NOW_MS);
    expect(result.deleted).toEqual([]);
    expect(result.skipped.map(({ why }) => why)).toEqual(["a link", "a link", "a link", "a link"]);
    expect(existsSync(target)).toBe(true);
  });

  test("as the folder itself are refused, with and without a slash", () => {
    const target = made("real/a.trace", 100);
    symlinkSync(join(folder, "real"), join(folder, "link"));
    for (const path of ["link", "link/", "link//"]) {
      expect(() => cleanUp(`${folder}/${path}`, weekOld, NOW_MS)).toThrow(/it is a link or no folder/);
    }
    expect(() => cleanUp(target, weekOld, NOW_MS)).toThrow(/it is a link or no folder/);
    expect(() => cleanUp(join(folder, "none"), weekOld, NOW_MS)).toThrow(/no such folder/);
    expect(existsSync(target)).toBe(true);
  });

  test("that are put in the way while it runs lead nowhere", () => {
    const outside = made("outside/a.trace", 100);
    made("runs/x/a.trace", 100);
    made("runs/y/b.trace", 100);
    let swapped = false;
    // between finding and deleting
    const result = cleanUp(join(folder, "runs"), weekOld, NOW_MS, () => {
      if (swapped) return;
      swapped = true;
      rmSync(join(folder, "runs/x"), { recursive: true });
      symlinkSync(join(folder, "outside"), join(folder, "runs/x"));
    });
    expect(swapped).toBe(true);
    expect(existsSync(outside)).toBe(true);
    expect(result.deleted.map(({ path }) => path)).toEqual([join(folder, "runs/y/b.trace")]);
    expect(result.failed).toEqual([
      { path: join(folder, "runs/x/a.trace"), why: expect.stringContaining("link") },
    ]);
  });
});
