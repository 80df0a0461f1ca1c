/**
 * The folder that an embedded DSec keeps everything in (`.dsec` by default): database, blobs, keys, the
 * executor's state, the first admin key. One process serves a folder at a time.
 */
import { randomUUID } from "node:crypto";
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  opendirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { DsecError } from "#core/errors.ts";
import { type FolderLock, isFolderLocked, lockFolder } from "#gateway/node/folder-lock.ts";

export type DataFolder = {
  path: string;
  database: string;
  blobs: string;
  signingKeys: string;
  executor: string;
  images: string;
  demo: string;
};

/** What the process that serves a folder says of itself. */
export type Serving = { url: string; pid: number };

const LOCK = "lock";

export function dataFolder(path: string): DataFolder {
  const root = resolve(path);
  return {
    path: root,
    database: join(root, "db"),
    blobs: join(root, "blobs"),
    signingKeys: join(root, "keys"),
    executor: join(root, "executor"),
    images: join(root, "images"),
    demo: join(root, "demo"),
  };
}

/** Makes the folder, for its owner only: it holds keys. */
export function makeDataFolder(path: string): DataFolder {
  const folder = dataFolder(path);
  try {
    makeFolders(folder.path);
    // a file that was named by mistake keeps its mode
    opendirSync(folder.path).closeSync();
    chmodSync(folder.path, 0o700);
  } catch (cause) {
    throw unusable(folder, cause as Error);
  }
  return folder;
}

/** A folder that was made before: whoever only looks must not make one, with keys of its own, of a misspelt path. */
export function existingDataFolder(path: string): DataFolder {
  const folder = dataFolder(path);
  if (existsSync(folder.path)) return makeDataFolder(path);
  throw new DsecError(
    "NOT_FOUND",
    `there is no data folder ${folder.path}; name it with --data or DSEC_DATA, or start DSec over it (dsec up)`,
  );
}

/** What the file system refused of the folder or in it, as an operating failure. */
export function unusable(folder: DataFolder, cause: Error): DsecError {
  return new DsecError(
    "CONFIG_INVALID",
    `data folder ${folder.path} cannot be used: ${cause.message}; mend that, or choose another folder (--data)`,
    { cause },
  );
}

/**
 * Takes the folder for this process, until it releases it or ends, however that happens.
 * @throws CONFIG_INVALID where another process has it, or the folder cannot be used
 */
export async function lockDataFolder(folder: DataFolder): Promise<FolderLock> {
  const lock = await lockFolder(folder.path, LOCK).catch((cause: Error) => {
    throw unusable(folder, cause);
  });
  if (lock === undefined) {
    const serving = readServing(folder);
    const way = serving
      ? `process ${serving.pid}, which serves ${serving.url}; stop it, use it (--gateway)`
      : "a process that is starting or ending; try again in a moment";
    throw new DsecError(
      "CONFIG_INVALID",
      `data folder ${folder.path} is in use by ${way}, or choose another folder (--data)`,
    );
  }
  rmSync(servingPath(folder), { force: true });
  return lock;
}

/**
 * The process that serves the folder now, or undefined when none does.
 * @throws CONFIG_INVALID where the folder is somebody else's
 */
export async function findServing(folder: DataFolder): Promise<Serving | undefined> {
  if (!existsSync(folder.path)) return undefined;
  try {
    accessSync(folder.path, constants.R_OK | constants.X_OK);
  } catch (cause) {
    throw unusable(folder, cause as Error);
  }
  return (await isFolderLocked(folder.path, LOCK)) ? readServing(folder) : undefined;
}

export function writeServing(folder: DataFolder, url: string): void {
  writeAtomically(servingPath(folder), `${JSON.stringify({ url, pid: process.pid } satisfies Serving)}\n`);
}

export function removeServing(folder: DataFolder): void {
  rmSync(servingPath(folder), { force: true });
}

/** The admin key that was minted at the first start, or undefined before it. */
export function readAdminKey(folder: DataFolder): string | undefined {
  return readIfThere(join(folder.path, "admin.key"))?.trim();
}

export function writeAdminKey(folder: DataFolder, secret: string): void {
  writeAtomically(join(folder.path, "admin.key"), `${secret}\n`);
}

/** A file is there whole or not at all, and only its owner reads it. */
export function writeAtomically(path: string, content: string | Uint8Array): void {
  // Not the file's own name and more, which may be as long as a name can be.
  const temporary = join(dirname(path), `.${randomUUID()}.tmp`);
  try {
    writeFileSync(temporary, content, { mode: 0o600, flush: true });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** Not mkdir's own `recursive`, which never returns where a parent cannot be made because it is on /proc. */
export function makeFolders(path: string): void {
  if (existsSync(path)) return;
  makeFolders(dirname(path));
  mkdirSync(path, { mode: 0o700 });
}

function servingPath(folder: DataFolder): string {
  return join(folder.path, "serving.json");
}

function readServing(folder: DataFolder): Serving | undefined {
  const text = readIfThere(servingPath(folder));
  if (text === undefined) return undefined;
  const { url, pid } = JSON.parse(text) as Partial<Serving>;
  return typeof url === "string" && typeof pid === "number" ? { url, pid } : undefined;
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
