/** Patterns and names are a task's own: what they are made to cost is bounded, and no other task waits for it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { collectOutputs } from "#executor/collect.ts";
import type { OutputSource } from "#executor/output-walk.ts";

type Entry = ReturnType<OutputSource["listOutput"]> extends Iterable<(infer E)[]> ? E : never;

const entry = (name: string, kind: Entry["kind"]): Entry => ({ name: Buffer.from(name), kind });

/** A sandbox whose folder of this path has these entries, all in one piece, and which has no other and no file. */
function sandboxWith(folder: string, entries: Entry[]) {
  const tried: string[] = [];
  const source: OutputSource = {
    listOutput: (path) => (Buffer.from(path).toString() === folder ? [entries] : []),
    openOutput(path) {
      tried.push(Buffer.from(path).toString());
      return null;
    },
  };
  return { source, tried };
}

const directory = mkdtempSync(join(tmpdir(), "dsec-output-walk-"));
afterAll(() => rmSync(directory, { recursive: true }));

const collect = (source: OutputSource, patterns: string[]) =>
  collectOutputs(source, patterns, { workingDirectory: "/work", directory });

/** The longest stretch of computing that kept everything else from its turn, in milliseconds. */
async function longestStretchMs(work: Promise<unknown>): Promise<number> {
  let state: "running" | "over" = "running";
  const end = () => {
    state = "over";
  };
  work.then(end, end);
  // Of this thread alone: what other programs on the machine do is no stretch of this one's.
  const computedMs = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  let longestMs = 0;
  for (let sinceMs = computedMs(); state === "running"; ) {
    await nextTurn();
    const nowMs = computedMs();
    longestMs = Math.max(longestMs, nowMs - sinceMs);
    sinceMs = nowMs;
  }
  return longestMs;
}

/** As costly as patterns can be: each fails at the end of a name, from wherever in it. */
const costly = Array.from({ length: LIMITS.outputGlobs }, () => `*${"a".repeat(125)}${"{b,c}".repeat(4)}`);

test("patterns that are made to cost are given up, and others have their turn all along", async () => {
  const names = Array.from({ length: 57 }, () => entry("a".repeat(255), "file"));
  const work = collect(sandboxWith("/work", names).source, costly);
  const stretchMs = longestStretchMs(work);
  await expect(work).rejects.toMatchObject({
    code: "OUTPUT_TOO_LARGE",
    message: expect.stringContaining("characters are compared"),
  });
  expect(await stretchMs).toBeLessThan(100);
});

test("more files than a task may put out are told when they are met, not once all are sorted and read", async () => {
  const files = Array.from({ length: 40_000 }, (_, n) => entry(`f${n}`, "file"));
  const { source, tried } = sandboxWith("/work", files);
  const work = collect(source, ["**"]);
  const stretchMs = longestStretchMs(work);
  await expect(work).rejects.toThrow(`more than ${LIMITS.outputFiles} files match`);
  expect(tried).toEqual([]);
  expect(await stretchMs).toBeLessThan(100);
});

test("links are tried one by one, each other's turns between, and those that lead to no file are no outputs", async () => {
  const links = Array.from({ length: 2_000 }, (_, n) => entry(`l${n}`, "link"));
  const { source, tried } = sandboxWith("/work", links);
  const openOutput: OutputSource["openOutput"] = (path) => {
    for (const untilMs = performance.now() + 0.2; performance.now() < untilMs; ); // a long chain of links
    return source.openOutput(path);
  };
  const work = collect({ ...source, openOutput }, ["*"]);
  const stretchMs = longestStretchMs(work);
  expect(await work).toEqual([]);
  expect(tried).toHaveLength(links.length);
  expect(await stretchMs).toBeLessThan(100);
});

test("more names than can be looked at are refused with the way out, folders and names that are tried among them", async () => {
  const piece = Array.from({ length: 1_000 }, (_, n) => entry(`n${n}`, "other"));
  const endless: OutputSource = {
    *listOutput() {
      for (;;) yield piece;
    },
    openOutput: () => null,
  };
  await expect(collect(endless, ["*"])).rejects.toThrow(
    `${LIMITS.outputNames} names are looked at; name a folder`,
  );
  const folders = Array.from({ length: 1_000 }, (_, n) => entry(`d${n}`, "directory"));
  const tries = `*/{${Array.from({ length: 1_024 }, (_, n) => n).join(",")}}`;
  await expect(collect(sandboxWith("/work", folders).source, [tries])).rejects.toThrow("names are looked at");
});

test("what folders have to wait with is bounded as well", async () => {
  const folders = Array.from({ length: 10_000 }, (_, n) => entry(`d${n}`, "directory"));
  const patterns = `**/{${Array.from({ length: 1_024 }, (_, n) => `${n}*`).join(",")}}`;
  await expect(collect(sandboxWith("/work", folders).source, [patterns])).rejects.toMatchObject({
    code: "OUTPUT_TOO_LARGE",
    message: expect.stringContaining("wait to be looked into"),
  });
});

test("where a folder is listed anyway, a fixed name that it does not have is not tried", async () => {
  const { source, tried } = sandboxWith("/work", [entry("other", "file"), entry("link", "link")]);
  expect(await collect(source, ["**/out.json", "*/{a,b}", "link"])).toEqual([]);
  expect(tried).toEqual(["/work/link"]);
});
