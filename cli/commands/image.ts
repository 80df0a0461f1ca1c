import { importImage } from "#executor/images/import.ts";
import { ImageStore } from "#executor/images/store.ts";
import { dataFolder, existingDataFolder, makeDataFolder } from "../data-folder.ts";
import { type Command, examples, nestedIn, note, printJson } from "../program.ts";
import { byteCount, type Column, paintFor, plainLine, printTable } from "../terminal.ts";

type Options = { data: string; json?: boolean };

export function define(command: Command): void {
  const add = nestedIn(command, "data folder");
  const importCommand = add("import", "make an image of a root file system and print its digest")
    .argument("<source>", "a folder, or a tar archive (also .gz, .xz, .zst), as `docker export` writes it")
    .argument("[name]", "name that tasks call it by, such as python:3.11")
    .action(importSource);
  const listCommand = add("list", "list the images of this host").action(list);
  const removeCommand = add("rm", "remove a name, or an image by its digest")
    .argument("<image>")
    .action(remove);
  examples(command, [
    [
      "a Debian of your own",
      "debootstrap --variant=minbase bookworm root && dsec image import root debian:12",
    ],
    ["run in it", "dsec run --image debian:12 -- cat /etc/debian_version"],
  ]);
  examples(importCommand, [
    [
      "from a container image",
      "docker export $(docker create python:3.11) > python.tar && dsec image import python.tar python:3.11",
    ],
  ]);
  examples(listCommand, [["for a program", "dsec image list --json"]]);
  examples(removeCommand, [["a name", "dsec image rm python:3.11"]]);
  command.addHelpText(
    "after",
    "\nImages belong to the executor of a host: import one on each host that is to run it.",
  );
}

async function importSource(source: string, name: string | undefined, options: Options): Promise<void> {
  const store = await openImages(options);
  const image = await importImage(store, source, { name: name ?? null, onProgress: (text) => note(text) });
  if (options.json) return printJson({ ...image, name: name ?? null });
  note(`${byteCount(image.size)}${name === undefined ? "" : `, named ${name}`}`);
  process.stdout.write(`${image.digest}\n`);
}

async function list(options: Options): Promise<void> {
  existingDataFolder(options.data);
  const images = await (await openImages(options)).list();
  if (options.json) return printJson(images);
  const rows = images.map(({ digest, names, size }) => [
    plainLine(names.join(", ")),
    byteCount(size),
    digest,
  ]);
  const columns: Column[] = [
    { title: "NAMES", leastWidth: 7 },
    { title: "SIZE", align: "right", leastWidth: 0 },
    { title: "DIGEST" },
  ];
  const paint = paintFor(process.stdout);
  printTable(columns, [["host", "", "this machine's /usr, read-only"], ...rows], (cell, row) =>
    row < 0 ? paint("dim", cell) : cell,
  );
}

async function remove(image: string, options: Options): Promise<void> {
  existingDataFolder(options.data);
  await (await openImages(options)).remove(image);
  if (options.json) printJson({ removed: image });
  else process.stdout.write(`removed ${plainLine(image)}\n`);
}

function openImages(options: Options): Promise<ImageStore> {
  makeDataFolder(options.data);
  return ImageStore.open(dataFolder(options.data).executor);
}
