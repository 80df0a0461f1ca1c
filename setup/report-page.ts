/**
 * Writes trace/report/page-parts.gen.ts from trace/report/page/, because edge code cannot read files and a report must be one
 * file: `node setup/report-page.ts`. A test holds the two equal. Each module becomes a function that gives what it exports.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";

const root = new URL("../", import.meta.url);
const start = new URL("trace/report/page/main.ts", root);

export function reportPageModule(): string {
  const style = readFileSync(new URL("style.css", start), "utf8");
  const parts = { SCRIPT: `"use strict";\n${bundle(basename(start.pathname))}`, STYLE: style };
  const constants = Object.entries(parts).map(([name, text]) => {
    if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${name} would end the element that it is in`);
    return `export const ${name} = \`${text.replace(/[\\`]|\$\{/g, (match) => `\\${match}`)}\`;\n`;
  });
  return `// Written by setup/report-page.ts from trace/report/page/; do not edit.\n${constants.join("")}`;
}

/** What a module imports comes before it. */
function bundle(entry: string): string {
  const done = new Map<string, string>();
  const visit = (name: string, within: string[]) => {
    if (within.includes(name))
      throw new Error(`modules import each other in a circle: ${[...within, name].join(" → ")}`);
    if (done.has(name)) return;
    const plain = stripTypeScriptTypes(readFileSync(new URL(name, start), "utf8"));
    const code = plain.replace(
      /^import\s*\{([^}]*)\}\s*from\s*"\.\/([\w-]+\.ts)";$/gm,
      (_, names: string, from: string) => {
        visit(from, [...within, name]);
        return `const {${names.replace(/\s+/g, " ")}} = ${constantOf(from)};`;
      },
    );
    if (/^import\b/m.test(code))
      throw new Error(`${name}: only imports of names from beside it can be put into the page`);
    const exported = [...code.matchAll(/^export (?:async )?(?:const|function\*?|class) (\w+)/gm)].map(
      ([, word]) => word,
    );
    const body = code
      .replace(/^export /gm, "")
      .replace(/[ \t]+$/gm, "")
      .replace(/\n{2,}/g, "\n");
    done.set(name, `const ${constantOf(name)} = (() => {${body}return { ${exported.join(", ")} };\n})();\n`);
  };
  visit(entry, []);
  return [...done.values()].join("");
}

function constantOf(name: string): string {
  return `$${name.replace(/\.ts$/, "").replaceAll("-", "_")}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(new URL("trace/report/page-parts.gen.ts", root), reportPageModule());
}
