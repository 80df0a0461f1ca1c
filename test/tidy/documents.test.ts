import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectFiles, ROOT, read } from "./sources.ts";

const files = projectFiles();

test("package.json keeps its scripts few, and CI runs the same ones", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  expect(Object.keys(scripts).length).toBeLessThanOrEqual(20);
  // skipped by those who switch install scripts off, so nothing may depend on them
  expect(Object.keys(scripts).filter((name) => /^(pre|post)/.test(name))).toEqual([]);
  expect(read(".ci/run")).toMatch(/\bnpm test\b/);
});

test("each decision has a number of its own and names what was rejected", () => {
  const decisions = files.filter((path) => path.startsWith("docs/decisions/"));
  const numbers = decisions.map((path) => /^docs\/decisions\/(\d{4})-[a-z0-9-]+\.md$/.exec(path)?.[1]);
  expect(numbers).not.toContain(undefined);
  expect(new Set(numbers).size).toBe(numbers.length);
  expect(numbers[0]).toBe("0001");
  for (const path of decisions) {
    expect(read(path), path).toMatch(/^# /);
    expect(read(path).toLowerCase(), path).toContain("reject");
  }
});

test("every promise names a test or benchmark that is there", () => {
  const rows = [...read("docs/promises.md").matchAll(/^\| (?!---|promise)(.+) \| (.+) \|$/gim)];
  expect(rows.length).toBeGreaterThan(10);
  const broken: string[] = [];
  for (const [, promise, held] of rows) {
    const named = [...held!.matchAll(/`([^`]+)`/g)].map(([, path]) => path!);
    const there = named.filter((path) => /^(test|bench)\//.test(path) && existsSync(join(ROOT, path)));
    if (there.length === 0 || there.length !== named.length) broken.push(`${promise}: ${held}`);
  }
  expect(broken).toEqual([]);
});

test("the change log has this version on top", () => {
  const { version } = JSON.parse(read("package.json")) as { version: string };
  expect(/^## (\S+)/m.exec(read("CHANGELOG.md"))?.[1]).toBe(version);
});

test("links between our documents lead somewhere", () => {
  const broken: string[] = [];
  for (const path of files.filter((file) => file.endsWith(".md"))) {
    for (const [, link] of read(path).matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)/g)) {
      if (!existsSync(join(ROOT, path, "..", link!))) broken.push(`${path} → ${link}`);
    }
  }
  expect(broken).toEqual([]);
});
