import { expect, test } from "vitest";
import { collectOutputs } from "#executor/collect.ts";
import { compileGlob, matchesName } from "#executor/glob.ts";
import { bytesFromName, nameFromBytes, wirePath } from "#executor/sandbox-path.ts";
import { FolderSource } from "./folder-source.ts";

/** Paths that a pattern matches in a tree of files, all through the real walk. */
async function matched(pattern: string, files: string[], base = "/work"): Promise<string[]> {
  await using source = await FolderSource.of(files);
  return (await collectOutputs(source, [pattern], { workingDirectory: base, directory: source.target })).map(
    (o) => o.path,
  );
}

test.each([
  ["out.json", ["/work/out.json"], ["/work/out.json"]],
  ["*.json", ["/work/a.json", "/work/b.txt", "/work/sub/c.json"], ["/work/a.json"]],
  [
    "**/*.json",
    ["/work/a.json", "/work/sub/deep/c.json", "/other/d.json"],
    ["/work/a.json", "/work/sub/deep/c.json"],
  ],
  ["out/**", ["/work/out/a", "/work/out/b/c", "/work/outside"], ["/work/out/a", "/work/out/b/c"]],
  ["**", ["/work/.hidden", "/work/a/b"], ["/work/.hidden", "/work/a/b"]],
  ["/data/??.log", ["/data/ab.log", "/data/abc.log", "/data/é1.log"], ["/data/ab.log", "/data/é1.log"]],
  ["[a-c]x", ["/work/ax", "/work/cx", "/work/dx"], ["/work/ax", "/work/cx"]],
  ["[!a-c]x", ["/work/ax", "/work/dx"], ["/work/dx"]],
  ["[]x]", ["/work/]", "/work/x", "/work/y"], ["/work/]", "/work/x"]],
  [
    "{a,b{1,2}}.txt",
    ["/work/a.txt", "/work/b1.txt", "/work/b2.txt", "/work/b.txt"],
    ["/work/a.txt", "/work/b1.txt", "/work/b2.txt"],
  ],
  ["{/data,sub}/x", ["/data/x", "/work/sub/x", "/work/data/x"], ["/data/x", "/work/sub/x"]],
  [
    "{a,b/**}/{c,d*}",
    ["/work/a/c", "/work/b/1/2/d3", "/work/b/c"],
    ["/work/a/c", "/work/b/1/2/d3", "/work/b/c"],
  ],
  ["{one}.txt", ["/work/{one}.txt", "/work/one.txt"], ["/work/{one}.txt"]],
  ["a\\*b", ["/work/a*b", "/work/axb"], ["/work/a*b"]],
  ["[", ["/work/[", "/work/x"], ["/work/["]],
  ["a**b", ["/work/ab", "/work/axxb", "/work/a/b"], ["/work/ab", "/work/axxb"]],
  ["/work/./x", ["/work/x"], ["/work/x"]],
])("pattern %s takes of %j exactly %j", async (pattern, files, expected) => {
  expect(await matched(pattern, files)).toEqual(expected);
});

test("a working directory with pattern characters in its name stands for itself", async () => {
  const files = ["/w[1]{a,b}/out", "/w1/out"];
  expect(await matched("*", files, "/w[1]{a,b}")).toEqual([wirePath("/w[1]{a,b}/out")]);
});

test("a name that would need exponential backtracking is judged at once", () => {
  const [step] = compileGlob(`/${"*a".repeat(50)}b`, "/");
  const { parts } = step as Extract<typeof step, { parts: unknown }>;
  let spent = 0;
  const matches = (name: string) => matchesName(parts, [...name], (comparisons) => (spent += comparisons));
  expect(matches("a".repeat(5_000))).toBe(false);
  expect(matches(`${"a".repeat(5_000)}b`)).toBe(true);
  expect(spent).toBeLessThan(2 * 5_000 * parts.length);
});

test("names of any bytes survive, and stand as percent escapes where they are not UTF-8", () => {
  const names = [
    [0x61, 0xff, 0x62],
    [0xc3, 0xa9],
    [0xc3],
    [0xed, 0xa0, 0x80],
    [0xf0, 0x9f, 0x92, 0xa9, 0x80],
    [0xef, 0xbb, 0xbf, 0x61],
    [0x25],
  ].map((bytes) => Uint8Array.from(bytes));
  for (const bytes of names) expect([...bytesFromName(nameFromBytes(bytes))]).toEqual([...bytes]);
  expect(names.map((bytes) => wirePath(nameFromBytes(bytes)))).toEqual([
    "a%FFb",
    "é",
    "%C3",
    "%ED%A0%80",
    "💩%80",
    "\uFEFFa",
    "%25",
  ]);
});
