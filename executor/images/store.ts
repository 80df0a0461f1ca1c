import { createHash, randomBytes } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { chmod, mkdir, open, readdir, readFile, rename, rm, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { DsecError } from "#core/errors.ts";
import { type Digest, isDigest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { DigestSchema } from "#core/wire/common.ts";
import { ImageSchema } from "#core/wire/tasks.ts";

export type StoredImage = { digest: Digest; names: string[]; size: number };

/**
 * The images of this host: EROFS files named by the SHA-256 of their bytes, and names that point to them. Both
 * appear by rename, so that a reader sees an image whole or not at all; several processes may share the folder.
 */
export class ImageStore {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  /** Opens the store and removes what imports that were killed left half made. */
  static async open(dataDirectory: string): Promise<ImageStore> {
    const directory = join(dataDirectory, "images");
    await mkdir(directory, { recursive: true, mode: 0o700 });
    for (const name of await readdir(directory)) {
      const pid = /^importing-(\d+)-/.exec(name)?.[1];
      if (pid !== undefined && !isAlive(Number(pid))) {
        await rm(join(directory, name), { recursive: true, force: true });
      }
    }
    return new ImageStore(directory);
  }

  /** The digest and file of an image by name or digest. IMAGE_NOT_FOUND says what there is. */
  async find(image: string): Promise<{ digest: Digest; path: string }> {
    const names = await this.#readNames();
    const digest = isDigest(image) ? image : Object.hasOwn(names, image) ? names[image] : undefined;
    if (digest !== undefined) {
      const path = this.#path(digest as Digest);
      if (await isFile(path)) return { digest: digest as Digest, path };
    }
    const known = ["host", ...Object.keys(names)].slice(0, 20).join(", ");
    throw new DsecError(
      "IMAGE_NOT_FOUND",
      `image ${image} is not on this executor, which has ${known}; import it with: dsec image import DIR|TAR`,
    );
  }

  async list(): Promise<StoredImage[]> {
    const names = await this.#readNames();
    const images: StoredImage[] = [];
    for (const file of (await readdir(this.directory)).sort()) {
      const digest = /^(sha256)-([0-9a-f]{64})\.erofs$/.exec(file);
      if (digest === null) continue;
      const id = `sha256:${digest[2]}` as const;
      const { size } = await stat(join(this.directory, file));
      images.push({ digest: id, names: Object.keys(names).filter((name) => names[name] === id), size });
    }
    return images;
  }

  /** A path in the store's folder for a new image under work; `add` takes it from there. */
  temporaryPath(): string {
    return join(this.directory, `importing-${process.pid}-${randomBytes(6).toString("hex")}`);
  }

  /** INVALID_REQUEST for a name that no task could ask for, or that means something else; null is no name. */
  checkName(name: string | null): void {
    if (name === null || (name !== "host" && !isDigest(name) && ImageSchema.safeParse(name).success)) return;
    throw new DsecError(
      "INVALID_REQUEST",
      `image name ${JSON.stringify(name.slice(0, 200))} must look like python:3.11: lower-case letters, digits, . _ - /`,
    );
  }

  /** Moves a finished image file in under its digest, which is read from the bytes on disk, and names it. */
  async add(file: string, name: string | null): Promise<{ digest: Digest; size: number }> {
    this.checkName(name);
    const hash = createHash("sha256");
    for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 }))
      hash.update(chunk as Buffer);
    const digest = digestOf(hash.digest());
    const { size } = await stat(file);
    await chmod(file, 0o400);
    await syncFile(file);
    await rename(file, this.#path(digest));
    await syncFile(this.directory);
    if (name !== null) await this.#changeNames((names) => ({ ...names, [name]: digest }));
    return { digest, size };
  }

  /**
   * Removes a name, and its image where no other name points to it; or an image by digest with all its names. A
   * sandbox that runs from it keeps it until it ends, for the file is mounted.
   */
  async remove(image: string): Promise<{ removedNames: string[]; removedImage: Digest | null }> {
    const { digest } = await this.find(image);
    const removedNames: string[] = [];
    let named = false;
    await this.#changeNames((names) => {
      const kept = { ...names };
      for (const [name, target] of Object.entries(names)) {
        if (target !== digest) continue;
        if (image === digest || image === name) {
          removedNames.push(name);
          delete kept[name];
        } else named = true;
      }
      return kept;
    });
    if (named) return { removedNames, removedImage: null };
    await unlink(this.#path(digest));
    return { removedNames, removedImage: digest };
  }

  #path(digest: Digest): string {
    return join(this.directory, `${digest.replace(":", "-")}.erofs`);
  }

  get #namesPath(): string {
    return join(this.directory, "names.json");
  }

  async #readNames(): Promise<Record<string, string>> {
    let text: string;
    try {
      text = await readFile(this.#namesPath, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
      throw error;
    }
    try {
      return NamesSchema.parse(JSON.parse(text));
    } catch (cause) {
      throw new DsecError(
        "CONFIG_INVALID",
        `${this.#namesPath} is not a map of image names to digests; restore it`,
        {
          cause,
        },
      );
    }
  }

  /** Read, change and rename under a lock file, so that two imports at once keep both names. */
  async #changeNames(change: (names: Record<string, string>) => Record<string, string>): Promise<void> {
    await withLock(`${this.#namesPath}.lock`, async () => {
      const temporary = this.temporaryPath();
      const file = await open(temporary, "wx", 0o600);
      try {
        await file.writeFile(`${JSON.stringify(change(await this.#readNames()), null, 2)}\n`);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, this.#namesPath);
    });
  }
}

const NamesSchema = z.record(z.string(), DigestSchema);

const LOCK_STALE_MS = 10_000;

async function withLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      await (await open(path, "wx", 0o600)).close();
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const age = await stat(path).then(
      ({ mtimeMs }) => Date.now() - mtimeMs,
      () => 0,
    );
    // The work under it takes milliseconds: an old lock is of a process that was killed.
    if (age > LOCK_STALE_MS) await rm(path, { force: true });
    else await new Promise((resolve) => setTimeout(resolve, 20));
  }
  try {
    return await work();
  } finally {
    await rm(path, { force: true });
  }
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, "r");
  await file.sync().finally(() => file.close());
}

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}
