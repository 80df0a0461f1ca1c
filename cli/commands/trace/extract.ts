import { open } from "node:fs/promises";
import { DsecError } from "#core/errors.ts";
import type { Source } from "#trace/format/walk.ts";
import { extractArchive, listArchive } from "#trace/node/extract-archive.ts";
import { type Command, examples, note, onStopSignal, printJson, usageError } from "../../program.ts";
import { byteCount, plainLine, printTable } from "../../terminal.ts";
import { progress } from "../../trace-files.ts";

type Options = { output?: string; list?: boolean; json?: boolean };

export function define(command: Command): void {
  command
    .argument("<archive>", "a .tar.zst")
    .argument("[name...]", "the members wanted (default: all)")
    .option("-o, --output <dir>", "where they go")
    .option("--list", "say what is in the archive, and extract nothing")
    .action(run);
  examples(command, [
    ["one trace out of many", "dsec trace extract 2026-11.tar.zst 2026-11-03/task.trace -o here/"],
    ["what there is", "dsec trace extract 2026-11.tar.zst --list"],
  ]);
  command.addHelpText(
    "after",
    `\nAn archive that dsec made is read only where the wanted members lie. One with names that lead out of the folder, with
links, devices or doubles is refused whole. Files that exist are not replaced.`,
  );
}

async function run(archive: string, names: string[], options: Options): Promise<void> {
  onStopSignal();
  if ((options.output === undefined) === (options.list !== true)) {
    throw usageError("say where the members go with -o, or ask for --list");
  }
  const source = await openSource(archive);
  try {
    if (options.list) return print(await listArchive(source), options);
    const shown = progress("extracting");
    const extracted = await extractArchive(source, options.output!, names, (name, done) =>
      shown.at(name, done),
    );
    shown.end();
    if (options.json) return printJson({ folder: options.output, members: extracted });
    const bytes = extracted.reduce((sum, { size }) => sum + size, 0);
    note(`${extracted.length} files, ${byteCount(bytes)}`);
    for (const { name } of extracted) process.stdout.write(`${plainLine(name)}\n`);
  } finally {
    await source.close!();
  }
}

function print(members: { name: string; size: number }[], { json }: Options): void {
  if (json) {
    printJson(members);
    return;
  }
  const rows = members.map(({ name, size }) => [plainLine(name), byteCount(size)]);
  printTable([{ title: "NAME" }, { title: "SIZE", align: "right" }], rows);
}

async function openSource(path: string): Promise<Source> {
  const handle = await open(path, "r").catch((cause: Error) => {
    throw new DsecError("NOT_FOUND", `${path} cannot be read: ${cause.message}`, { cause });
  });
  const stats = await handle.stat();
  if (!stats.isFile()) {
    await handle.close();
    throw new DsecError("INVALID_REQUEST", `${path} is no regular file`);
  }
  return {
    name: path,
    size: stats.size,
    async read(offset, length) {
      const bytes = new Uint8Array(length);
      const { bytesRead } = await handle.read(bytes, 0, length, offset);
      return bytes.subarray(0, bytesRead);
    },
    close: () => handle.close(),
  };
}
