/**
 * Blobs on a local disk: `<root>/sha256/ab/cd/<64 hex digits>`, each written beside them under `incoming/`, made
 * durable, and renamed into place, so that a reader sees all of it or nothing.
 */
import { createHash, randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readdir, rename, unlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { Readable } from "node:stream";
import { DsecError } from "#core/errors.ts";
import { type Digest, isDigest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import type { BlobStore } from "../ports.ts";

/** Opens the store in a folder that is made where it is absent, and sweeps what a crash left half written long ago. */
export async function openDiskBlobs(directory: string): Promise<BlobStore> {
  const root = resolve(directory);
  const incoming = join(root, "incoming");
  for (const folder of [root, incoming, join(root, "sha256")]) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await refuseLink(folder);
  }
  await sweep(incoming);

  return {
    async put(expected, body, maxBytes) {
      if (expected !== null && (await sizeOf(root, expected)) !== null) {
        return receive(null, body, { expected, maxBytes });
      }
      const temporary = join(incoming, randomUUID());
      const file = await open(temporary, "wx", 0o600);
      try {
        const received = await receive(file, body, { expected, maxBytes });
        await file.sync();
        await file.close();
        await place(root, temporary, received.digest);
        return received;
      } catch (error) {
        await file.close().catch(() => {});
        await unlink(temporary).catch(() => {});
        throw isDiskFull(error)
          ? new DsecError(
              "STORE_UNAVAILABLE",
              "the gateway's disk is full; send it again once there is room",
              {
                cause: error,
              },
            )
          : error;
      }
    },

    async get(digest) {
      const file = await openBlob(root, digest);
      if (file === null) return null;
      const { size } = await file.stat();
      // autoClose gives the descriptor back when the reader ends or leaves.
      const body = Readable.toWeb(file.createReadStream({ autoClose: true, highWaterMark: 256 * 1024 }));
      return { size, body: body as ReadableStream<Uint8Array> };
    },

    size: (digest) => sizeOf(root, digest),
  };
}

function isDiskFull(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOSPC" || error.code === "EDQUOT");
}

/** Checks the content while it comes, and writes it where there is a file for it. */
async function receive(
  file: FileHandle | null,
  body: ReadableStream<Uint8Array>,
  { expected, maxBytes }: { expected: Digest | null; maxBytes: number },
): Promise<{ digest: Digest; size: number }> {
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > maxBytes) {
      throw new DsecError("BODY_TOO_LARGE", `the content is larger than ${maxBytes} bytes`, {
        details: { max_bytes: maxBytes },
      });
    }
    hash.update(chunk);
    await file?.writeFile(chunk);
  }
  const digest: Digest = `sha256:${hash.digest("hex")}`;
  if (expected !== null && digest !== expected) {
    throw new DsecError("DIGEST_MISMATCH", `the content is ${digest}, not ${expected}; nothing was kept`);
  }
  return { digest, size };
}

/** Renames into place and makes the name durable. Two writers of the same content may race: both bring the same bytes. */
async function place(root: string, temporary: string, digest: Digest): Promise<void> {
  const path = pathOf(root, digest);
  const folder = dirname(path);
  const made = await mkdir(folder, { recursive: true, mode: 0o700 });
  await rename(temporary, path);
  // The rename, and each folder that was made for it, must outlive a power cut.
  for (let at = folder; ; at = dirname(at)) {
    await syncFolder(at);
    if (made === undefined || at === dirname(made)) return;
  }
}

async function openBlob(root: string, digest: Digest): Promise<FileHandle | null> {
  try {
    return await open(pathOf(root, digest), constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

async function sizeOf(root: string, digest: Digest): Promise<number | null> {
  const path = pathOf(root, digest);
  try {
    const found = await lstat(path);
    if (!found.isFile())
      throw new Error(`${path} is no regular file; somebody else writes into the blob store`);
    return found.size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** Two levels of 256 folders keep each small. Only a digest becomes a path, whatever the type says. */
function pathOf(root: string, digest: Digest): string {
  if (!isDigest(digest))
    throw new DsecError("INVALID_REQUEST", "a blob is named by sha256: and 64 hexadecimal digits");
  const hex = digest.slice("sha256:".length);
  return join(root, "sha256", hex.slice(0, 2), hex.slice(2, 4), hex);
}

/** Another living gateway may share the folder: what it is writing is not touched. */
async function sweep(incoming: string): Promise<void> {
  const leftBeforeMs = Date.now() - LIMITS.uploadIdleMs;
  for (const name of await readdir(incoming)) {
    const path = join(incoming, name);
    try {
      if ((await lstat(path)).mtimeMs < leftBeforeMs) await unlink(path);
    } catch (error) {
      // Its writer has put it into place meanwhile.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}

async function refuseLink(folder: string): Promise<void> {
  const found = await lstat(folder);
  if (found.isDirectory()) return;
  throw new DsecError(
    "CONFIG_INVALID",
    `${folder} must be a folder of its own, not a link; move it or choose another --data`,
  );
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
