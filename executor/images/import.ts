import { execFile } from "node:child_process";
import { mkdir, realpath, rm, stat } from "node:fs/promises";
import { isAbsolute, relative } from "node:path";
import { promisify } from "node:util";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { copyTree } from "./copy-tree.ts";
import { LATEST_S } from "./root-writer.ts";
import type { ImageStore } from "./store.ts";
import { extractTar } from "./tar.ts";

/**
 * Makes an image of a folder or a tar archive (plain, gzip, xz or zstd) and stores it under its digest. Equal trees give equal
 * bytes, and so the same digest: names, contents, modes, owners and times of change to the second are kept, the file system's
 * own time, its UUID and the order are fixed, and set-id bits, extended attributes and hard link counts are left out.
 *
 * IMAGE_INVALID names the member that cannot be taken; nothing is stored then, and nothing is ever written outside
 * the store's folder.
 * @param options.onProgress one line for people at each step
 */
export async function importImage(
  store: ImageStore,
  source: string,
  options: { name: string | null; onProgress?: ((text: string) => void) | undefined },
): Promise<{ digest: Digest; size: number }> {
  const onProgress = options.onProgress ?? (() => {});
  store.checkName(options.name);
  const found = await stat(source).catch((cause) => {
    throw new DsecError(
      "INVALID_REQUEST",
      `image source ${source} cannot be read: ${(cause as Error).message}`,
      { cause },
    );
  });
  if (found.isDirectory()) await checkApart(source, store);
  const root = store.temporaryPath();
  const image = `${root}.erofs`;
  try {
    await mkdir(root, { mode: 0o755 });
    const take = found.isDirectory() ? copyTree : extractTar;
    const { members, bytes } = await take(source, root, onProgress);
    onProgress(`packing ${members} files (${Math.ceil(bytes / (1024 * 1024))} MiB)`);
    await makeErofs(root, image);
    onProgress("computing its digest");
    return await store.add(image, options.name);
  } finally {
    await rm(root, { recursive: true, force: true });
    await rm(image, { force: true });
  }
}

/** An image of the folder in which the store lies would hold itself, and the keys that lie beside the store. */
async function checkApart(source: string, { directory }: ImageStore): Promise<void> {
  const way = relative(await realpath(source), await realpath(directory));
  if (way === ".." || way.startsWith("../") || isAbsolute(way)) return;
  throw new DsecError(
    "INVALID_REQUEST",
    `image source ${source} holds ${directory}, where images and keys are kept; name another folder with --data`,
  );
}

/**
 * mkfs.erofs(1) with everything fixed that would otherwise differ from run to run. What `-T` fixes is the time of every file;
 * this variable is the file system's own time, and no file's is later (reproducible-builds.org).
 */
async function makeErofs(root: string, image: string): Promise<void> {
  const fixed = ["-U00000000-0000-0000-0000-000000000000", "-x-1", "--quiet"];
  try {
    await promisify(execFile)("mkfs.erofs", [...fixed, image, root], {
      maxBuffer: 16 * 1024 * 1024,
      env: { ...process.env, SOURCE_DATE_EPOCH: String(LATEST_S) },
    });
  } catch (cause) {
    const missing = (cause as NodeJS.ErrnoException).code === "ENOENT";
    const detail = missing
      ? "mkfs.erofs is not installed; apt-get install erofs-utils"
      : (cause as Error).message;
    throw new DsecError(missing ? "HOST_UNSUITABLE" : "IMAGE_INVALID", `making the image failed: ${detail}`, {
      cause,
    });
  }
}
