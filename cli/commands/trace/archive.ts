import { lstat } from "node:fs/promises";
import { basename, dirname, relative, resolve } from "node:path";
import { DsecError } from "#core/errors.ts";
import { writeArchive } from "#trace/node/write-archive.ts";
import { type Command, examples, note, onStopSignal, printJson } from "../../program.ts";
import { byteCount, plainLine } from "../../terminal.ts";
import { progress, traceFiles } from "../../trace-files.ts";

type Options = { output: string; json?: boolean };

export function define(command: Command): void {
  command
    .argument("<file...>", "traces, trajectories and other files, by path, folder or glob")
    .requiredOption("-o, --output <file>", "the archive, ending in .tar.zst")
    .action(run);
  examples(command, [
    ["the traces of a month", "dsec trace archive traces/2026-11-* -o 2026-11.tar.zst"],
    ["what is in it, without dsec", "tar --zstd -tvf 2026-11.tar.zst"],
  ]);
  command.addHelpText(
    "after",
    `\nThe archive is a tar that every \`tar --zstd\` reads, with an index: dsec trace extract reads one member without the
others. Members are named by their path below the folder that all files have in common. Links are refused.`,
  );
}

async function run(words: string[], options: Options): Promise<void> {
  onStopSignal();
  if (!options.output.endsWith(".tar.zst")) {
    throw new DsecError("INVALID_REQUEST", `${options.output} must end in .tar.zst`);
  }
  const files = await named(words);
  const shown = progress("archiving");
  const written = await writeArchive(options.output, files, (name, done) => shown.at(name, done));
  shown.end();
  const { members, digest, size } = written;
  if (options.json) return printJson({ file: options.output, size, digest, members });
  const bytes = members.reduce((sum, member) => sum + member.size, 0);
  note(`${members.length} files, ${byteCount(bytes)}, in ${byteCount(size)}`);
  process.stdout.write(`${plainLine(options.output)}  ${digest}\n`);
}

/** Each file with its name in the archive. One that is named twice is taken once. */
async function named(words: string[]): Promise<{ path: string; name: string }[]> {
  const paths = new Set<string>();
  for await (const path of traceFiles(words)) {
    const isLink = (await lstat(path)).isSymbolicLink();
    if (isLink) throw new DsecError("INVALID_REQUEST", `${path} is a link; name the file itself`);
    paths.add(resolve(path));
  }
  const all = [...paths];
  if (all.length === 1) return [{ path: all[0]!, name: basename(all[0]!) }];
  const common = commonFolder(all);
  return all.map((path) => ({ path, name: relative(common, path) }));
}

function commonFolder(paths: string[]): string {
  let folder = dirname(paths[0]!);
  for (const path of paths) {
    while (folder !== "/" && !path.startsWith(`${folder}/`)) folder = dirname(folder);
  }
  return folder;
}
