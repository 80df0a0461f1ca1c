import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { importsOf, ROOT, read, roomOf, typescriptFiles } from "./sources.ts";

/** The table of rooms in docs/architecture.md is the rule, so that text and code cannot part. */
const ROOMS = roomsTable();
/** Where rooms are put together or tried: these may import any room. */
const ANYWHERE = ["cli", "test", "bench", "setup", "examples", ""];

test("every room of the design is read from docs/architecture.md", () => {
  expect([...ROOMS.keys()]).toEqual(
    expect.arrayContaining(["core", "trace", "gateway", "native", "executor", "sdk", "cli"]),
  );
  expect(ROOMS.get("core")).toEqual([]);
  expect(ROOMS.get("executor")).not.toContain("gateway");
  expect(ROOMS.get("gateway")).not.toContain("executor");
});

test("each folder with code is a room of the design", () => {
  const strangers = typescriptFiles()
    .map(roomOf)
    .filter((room) => !ROOMS.has(room) && !ANYWHERE.includes(room));
  expect([...new Set(strangers)]).toEqual([]);
});

test("a room imports only the rooms that the design lets it", () => {
  const wrong: string[] = [];
  for (const path of typescriptFiles()) {
    const room = roomOf(path);
    if (ANYWHERE.includes(room)) continue;
    for (const { target } of importsOf(path)) {
      if (target === undefined || roomOf(target) === "") continue; // package.json
      const other = roomOf(target);
      if (other !== room && !ROOMS.get(room)?.includes(other)) wrong.push(`${path} imports ${target}`);
    }
  }
  expect(wrong).toEqual([]);
});

test("only tests and benchmarks import the command line, and no room imports a test", () => {
  const wrong: string[] = [];
  for (const path of typescriptFiles()) {
    const room = roomOf(path);
    for (const { target } of importsOf(path)) {
      if (target === undefined) continue;
      if (roomOf(target) === "cli" && !["cli", "test", "bench"].includes(room))
        wrong.push(`${path} imports ${target}`);
      if (roomOf(target) === "test" && !["test", "bench", ""].includes(room))
        wrong.push(`${path} imports ${target}`);
    }
  }
  expect(wrong).toEqual([]);
});

test("rooms are entered through #room/ imports, and native only through its index", () => {
  const wrong: string[] = [];
  for (const path of typescriptFiles()) {
    for (const { specifier, target } of importsOf(path)) {
      if (target === undefined) continue;
      const crosses =
        roomOf(target) !== roomOf(path) &&
        ![roomOf(path), roomOf(target)].some((room) => room === "" || room === "setup");
      if (specifier.startsWith(".") && crosses) wrong.push(`${path}: ${specifier} crosses into another room`);
      if (crosses && roomOf(target) === "native" && target !== "native/index.ts") {
        wrong.push(`${path} imports ${target}`);
      }
    }
  }
  expect(wrong).toEqual([]);
});

test("every import of a file of ours names one that is there", () => {
  const missing = typescriptFiles().flatMap((path) =>
    importsOf(path)
      .filter(({ target }) => target !== undefined && !existsSync(join(ROOT, target)))
      .map(({ specifier }) => `${path} imports ${specifier}`),
  );
  expect(missing).toEqual([]);
});

test("code for the edge and for browsers uses nothing of Node", () => {
  const wrong: string[] = [];
  for (const path of typescriptFiles().filter(runsWithoutNode)) {
    for (const { specifier, target } of importsOf(path)) {
      if (specifier.startsWith("node:")) wrong.push(`${path} imports ${specifier}`);
      if (target !== undefined && /^(trace|gateway)\/node\//.test(target))
        wrong.push(`${path} imports ${target}`);
    }
    const global = /\b(Buffer|process|__dirname|require)\b(?=[.(])/.exec(code(path))?.[1];
    if (global) wrong.push(`${path} uses ${global}`);
  }
  expect(wrong).toEqual([]);
});

function runsWithoutNode(path: string): boolean {
  return (
    ["core", "proto", "trace", "gateway", "sdk"].includes(roomOf(path)) &&
    !/^(trace|gateway)\/node\//.test(path)
  );
}

/** Without comments and strings, in which any word may stand. */
function code(path: string): string {
  return read(path).replace(
    /\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g,
    " ",
  );
}

/** Rows such as "| `trace/` | what lives there | core, proto |". */
function roomsTable(): Map<string, string[]> {
  const rooms = new Map<string, string[]>();
  for (const [, name, may] of read("docs/architecture.md").matchAll(/^\| `(\w+)\/` \|.*\| ([^|]*) \|$/gm)) {
    rooms.set(
      name!,
      may!.startsWith("any room")
        ? [...rooms.keys()]
        : may!
            .split(",")
            .map((room) => room.trim())
            .filter((room) => room !== "nothing"),
    );
  }
  return rooms;
}
