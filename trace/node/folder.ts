/**
 * Folders by descriptor: names are looked up in the folder that was opened, whatever becomes of its path meanwhile, and no link is
 * followed. Node has no openat(2); /proc/self/fd is the same to the kernel (proc(5)).
 */
import {
  closeSync,
  constants,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  type Stats,
  unlinkSync,
} from "node:fs";
import { DsecError } from "#core/errors.ts";

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY, O_WRONLY, O_CREAT, O_EXCL } = constants;

export class Folder {
  /** For errors and reports. */
  readonly path: string;
  readonly #fd: number;

  private constructor(path: string, fd: number) {
    this.path = path;
    this.#fd = fd;
  }

  /** @throws INVALID_REQUEST where the path is no folder, or is a link to one; NOT_FOUND */
  static open(path: string): Folder {
    const bare = path.replace(/(?<=.)\/+$/, "");
    return new Folder(path, openFolder(bare, path));
  }

  /** Where it is now, without links. */
  realPath(): string {
    return readlinkSync(`/proc/self/fd/${this.#fd}`);
  }

  /** Names, in order. */
  names(): string[] {
    return readdirSync(`/proc/self/fd/${this.#fd}`).sort();
  }

  /** Of the name itself: of a link, not of what it leads to. Null where there is none. */
  stat(name: string): Stats | null {
    return lstatSync(this.#at(name), { throwIfNoEntry: false }) ?? null;
  }

  /** A folder in this one. @throws as `open` does */
  folder(name: string): Folder {
    const path = `${this.path.replace(/\/+$/, "")}/${name}`;
    return new Folder(path, openFolder(this.#at(name), path));
  }

  /** The same, made where there is none. */
  madeFolder(name: string): Folder {
    try {
      mkdirSync(this.#at(name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    return this.folder(name);
  }

  /** The descriptor of a new file. */
  makeFile(name: string): number {
    return openSync(this.#at(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644);
  }

  /** Gives a file of this folder another name, which must be free. @throws with EEXIST where it is not */
  link(name: string, another: string): void {
    linkSync(this.#at(name), this.#at(another));
  }

  unlink(name: string): void {
    unlinkSync(this.#at(name));
  }

  sync(): void {
    fsyncSync(this.#fd);
  }

  close(): void {
    closeSync(this.#fd);
  }

  #at(name: string): string {
    // a slash would lead into another folder, by links that nobody checked
    if (name === "" || name === "." || name === ".." || name.includes("/")) {
      throw new Error(`${JSON.stringify(name)} is no name in a folder`);
    }
    return `/proc/self/fd/${this.#fd}/${name}`;
  }
}

function openFolder(path: string, shown: string): number {
  try {
    return openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT") throw new DsecError("NOT_FOUND", `${shown}: no such folder`, { cause });
    // O_NOFOLLOW and O_DIRECTORY together say ENOTDIR of a link
    if (code === "ENOTDIR" || code === "ELOOP") {
      const why = "it is a link or no folder; name the folder itself";
      throw new DsecError("INVALID_REQUEST", `${shown}: ${why}`, { cause });
    }
    throw new DsecError("INVALID_REQUEST", `${shown} cannot be opened: ${message}`, { cause });
  }
}
