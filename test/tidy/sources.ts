/** The files of this checkout as the tidy tests read them. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, posix, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../..");

/** Every file that is, or would be, committed: paths relative to the root. */
export function projectFiles(): string[] {
  const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z"], {
    cwd: ROOT,
  });
  return listed
    .toString()
    .split("\0")
    .filter((path) => path !== "" && existsSync(join(ROOT, path)))
    .sort();
}

export function typescriptFiles(): string[] {
  return projectFiles().filter((path) => path.endsWith(".ts"));
}

export function read(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** The first folder of a path, or "" for files at the top. */
export function roomOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.indexOf("/")) : "";
}

export type Import = {
  specifier: string /** the file in this project, where it is one */;
  target: string | undefined;
};

/** Static, dynamic and type imports of a file, and re-exports. */
export function importsOf(path: string): Import[] {
  const code = withoutComments(read(path));
  const found = [
    ...code.matchAll(/\b(?:import|export)\b[^;"'`()]*?\bfrom\s*["']([^"']+)["']/g),
    ...code.matchAll(/\bimport\s*["']([^"']+)["']/g),
    ...code.matchAll(/\bimport\(\s*["']([^"']+)["']\s*\)/g),
  ];
  return found.map(([, specifier]) => ({ specifier: specifier!, target: targetOf(path, specifier!) }));
}

function targetOf(path: string, specifier: string): string | undefined {
  if (specifier.startsWith("#")) return specifier.slice(1);
  if (specifier.startsWith(".")) return posix.normalize(posix.join(dirname(path), specifier));
  return undefined;
}

/** Comments may show code that is not meant; strings stay, for imports are strings. */
function withoutComments(code: string): string {
  return code.replace(
    /("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|\/\*[\s\S]*?\*\/|(?<![:\\])\/\/[^\n]*/g,
    (_, text) => text ?? " ",
  );
}
