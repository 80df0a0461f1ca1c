import { dirname, posix } from "node:path";
import { expect, test } from "vitest";
import { importsOf, projectFiles, read, roomOf, typescriptFiles } from "./sources.ts";

const files = projectFiles();

test("every TypeScript file is reached from a program, a test or a benchmark", () => {
  const all = typescriptFiles();
  const alive = new Set<string>();
  const visit = (path: string) => {
    if (alive.has(path) || !all.includes(path)) return;
    alive.add(path);
    for (const { target } of importsOf(path)) if (target !== undefined) visit(target);
    // programs that are started as a process of their own, and set-up files that vitest loads, are named by path
    for (const named of namedFiles(path)) visit(named);
  };
  for (const path of all) if (isEntry(path)) visit(path);
  for (const path of ["package.json", "setup/setup.sh", ".ci/run", "dsec", "wrangler.toml"]) {
    for (const named of namedFiles(path)) visit(named);
  }
  expect(all.filter((path) => !alive.has(path))).toEqual([]);
});

test("files are named in kebab case, C++ ones in snake case, and never utils", () => {
  const wrong = files.filter((path) => {
    const name = path.slice(path.lastIndexOf("/") + 1);
    if (/\b(utils?|helpers?|misc|common-utils)\b/.test(name.split(".")[0]!) && roomOf(path) !== "native")
      return true;
    if (/\.(ts|sh)$/.test(name))
      return !/^[a-z0-9]+(-[a-z0-9]+)*(\.(test|gen|d|config))*\.(ts|sh)$/.test(name);
    if (name === "__init__.py") return false;
    if (/\.(cc|h|py)$/.test(name)) return !/^[a-z0-9]+(_[a-z0-9]+)*\.(cc|h|py)$/.test(name);
    return false;
  });
  expect(wrong).toEqual([]);
});

test("no leftovers: unfinished work, switched-off checks, tests that are left out", () => {
  const patterns: [what: string, pattern: RegExp, only: RegExp][] = [
    ["any", /(\bas any\b|: any\b|<any>)/, /\.ts$/],
    ["switched-off type check", /@ts-(ignore|nocheck|expect-error)/, /\.ts$/],
    ["switched-off linter without a reason", /biome-ignore(-all|-start)? [\w/]+:?\s*$/m, /\.ts$/],
    ["unfinished work", /\b(TODO|FIXME|XXX|HACK)\b/, /\.(ts|cc|h|sh|py|c)$/],
    ["a test left out", /\b(test|it|describe)(\.\w+)*\.(only|todo|fixme)\b/, /\.test\.ts$/],
    ["a test left out", /\b(test|it|describe)\.skip\b/, /\.test\.ts$/],
  ];
  const found: string[] = [];
  for (const path of files.filter((path) => path !== "test/tidy/files.test.ts")) {
    for (const [what, pattern, only] of patterns) {
      if (!only.test(path)) continue;
      const line = read(path)
        .split("\n")
        .findIndex((text) => pattern.test(text));
      if (line >= 0) found.push(`${path}:${line + 1}: ${what}`);
    }
  }
  expect(found).toEqual([]);
});

test("no file names the folder of one machine or a registry's host", () => {
  const places = [/\/work\/(main|shared)\b/, /registry\.npmjs\.org/, /deb\.debian\.org/];
  const found = files
    .filter((path) => /\.(ts|cc|h|sh|md|json|toml|yml|py)$/.test(path) && path !== "test/tidy/files.test.ts")
    .filter((path) => places.some((place) => place.test(read(path))));
  expect(found).toEqual([]);
});

test("files stay readable: at most 400 lines, generated ones aside", () => {
  const long = files
    .filter((path) => /\.(ts|cc|h|sh|py)$/.test(path) && !/\.gen\./.test(path))
    .map((path) => [path, read(path).split("\n").length] as const)
    .filter(([path, lines]) => lines > (/\.test\.ts$|(^|\/)test_\w+\.py$/.test(path) ? 600 : 400));
  expect(long).toEqual([]);
});

function isEntry(path: string): boolean {
  return (
    path === "cli/main.ts" ||
    path.endsWith(".test.ts") ||
    path.endsWith(".config.ts") ||
    /^bench\/[^/]+\.ts$/.test(path)
  );
}

/** Files of ours that a text names: beside it, from the root, or by the last members of their path. */
function namedFiles(path: string): string[] {
  const names = [...read(path).matchAll(/[\w./-]+\.ts\b/g)].map(([name]) => name);
  return names.flatMap((name) => [posix.normalize(name), posix.normalize(posix.join(dirname(path), name))]);
}
