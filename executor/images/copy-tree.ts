import { createReadStream } from "node:fs";
import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { invalid, RootWriter } from "./root-writer.ts";

/**
 * Copies a folder that holds a root file system. Devices, sockets and pipes are left out, as a root that was in use
 * has some and no sandbox could open them; set-id bits are dropped, links are copied as links.
 */
export async function copyTree(
  source: string,
  root: string,
  onProgress: (text: string) => void,
): Promise<{ members: number; bytes: number }> {
  const writer = new RootWriter(root);
  /** First name of each file that has several, by device and inode. */
  const linked = new Map<string, string>();
  const pending = [""];
  while (pending.length > 0) {
    const folder = pending.pop()!;
    await writer.folder(folder, await lstat(join(source, folder)));
    for (const name of (await readdir(join(source, folder))).sort()) {
      const path = folder === "" ? name : `${folder}/${name}`;
      const from = join(source, path);
      if (name.includes("\uFFFD")) throw invalid(path, "its name is not UTF-8");
      const found = await lstat(from);
      if (found.isDirectory()) pending.push(path);
      else if (found.isSymbolicLink()) await writer.symbolicLink(path, await readlink(from), found);
      else if (found.isFile()) {
        const inode = `${found.dev}:${found.ino}`;
        const first = found.nlink > 1 ? linked.get(inode) : undefined;
        if (first === undefined) await writer.file(path, createReadStream(from), found);
        else await writer.hardLink(path, first);
        linked.set(inode, first ?? path);
      }
      if (writer.members % 5_000 === 0) onProgress(`copied ${writer.members} files`);
    }
  }
  await writer.finish();
  return writer;
}
