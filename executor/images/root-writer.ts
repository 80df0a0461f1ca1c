import { createWriteStream } from "node:fs";
import { chmod, chown, lchown, link, lstat, lutimes, mkdir, symlink, unlink, utimes } from "node:fs/promises";
import { dirname, join, normalize } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { DsecError } from "#core/errors.ts";

/** What a member's header, or its inode, says besides its content. */
export type Attributes = { uid: number; gid: number; mode: number; mtime: Date };

/** The last second that a time can say here: 2106-02-07, which file systems can hold too. */
export const LATEST_S = 2 ** 32 - 1;

/** So much may one image hold, unpacked. */
const BYTES_MAX = 64 * 1024 * 1024 * 1024;
const MEMBERS_MAX = 4_000_000;

/**
 * Builds an image's root in a private folder from members whose names nobody vouches for. Every member stays inside:
 * a name may not be absolute or climb, and no member is written through a link, whoever made that link. Links
 * themselves are kept as data, for they are followed only inside the sandbox, where `/` is the image's root.
 */
export class RootWriter {
  readonly #root: string;
  /** Folders known to be real folders of this root. */
  readonly #folders = new Set<string>([""]);
  /** The time of each of them, in seconds; 0 where no member says it. Every member that is written into one changes it. */
  readonly #folderTimes = new Map<string, number>([["", 0]]);
  members = 0;
  bytes = 0;

  /** @param root an empty folder that nobody else writes to */
  constructor(root: string) {
    this.#root = root;
  }

  async folder(name: string, attributes: Attributes): Promise<void> {
    const path = await this.#enter(name);
    if (path === "") return this.#ownFolder("", attributes);
    if (!this.#folders.has(path)) {
      await this.#claim(path, "folder");
      await mkdir(this.#at(path)).catch(ignoreExisting);
      this.#addFolder(path);
    }
    await this.#ownFolder(path, attributes);
  }

  async file(name: string, content: Readable, attributes: Attributes): Promise<void> {
    const path = await this.#enter(name);
    await this.#claim(path, "file");
    const count = async function* (this: RootWriter, source: AsyncIterable<Buffer>) {
      for await (const chunk of source) {
        this.bytes += chunk.length;
        if (this.bytes > BYTES_MAX) throw invalid(name, `the image holds more than ${BYTES_MAX} bytes`);
        yield chunk;
      }
    };
    // wx: what is there already, a link above all, is never opened.
    await pipeline(
      content,
      count.bind(this),
      createWriteStream(this.#at(path), { flags: "wx", mode: 0o600 }),
    );
    await this.#own(path, attributes);
    const second = secondOf(attributes.mtime);
    await utimes(this.#at(path), second, second);
  }

  /** @param target kept as it is; refused where it is relative and climbs above the image's root */
  async symbolicLink(name: string, target: string, attributes: Omit<Attributes, "mode">): Promise<void> {
    const path = await this.#enter(name);
    if (target === "" || target.includes("\0")) throw invalid(name, "it is a link to nothing");
    if (!target.startsWith("/") && climbs(join(dirname(path), target))) {
      throw invalid(name, `it is a link out of the image, to ${target}`);
    }
    await this.#claim(path, "link");
    await symlink(target, this.#at(path));
    await lchown(this.#at(path), attributes.uid, attributes.gid);
    const second = secondOf(attributes.mtime);
    await lutimes(this.#at(path), second, second);
  }

  /** @param target name of an earlier member, from the image's root */
  async hardLink(name: string, target: string): Promise<void> {
    const path = await this.#enter(name);
    const existing = await this.#enter(target);
    const found = await lstat(this.#at(existing)).catch(() => null);
    if (found === null || found.isDirectory()) {
      throw invalid(name, `it is a hard link to ${target}, which is no earlier file of this image`);
    }
    await this.#claim(path, "link");
    await link(this.#at(existing), this.#at(path));
  }

  /** Once all members are there: the folders get their times. */
  async finish(): Promise<void> {
    for (const [path, second] of this.#folderTimes) await utimes(this.#at(path), second, second);
  }

  /** Checks a member's name and makes the folders above it. Returns the name without `./` and slashes at its ends. */
  async #enter(name: string): Promise<string> {
    if (++this.members > MEMBERS_MAX) throw invalid(name, `the image has more than ${MEMBERS_MAX} members`);
    if (name.startsWith("/")) throw invalid(name, "its name is absolute");
    // What a decoder puts where bytes are not UTF-8 is not the file's name any more.
    if (name.includes("\uFFFD")) throw invalid(name, "its name is not UTF-8");
    if (name.includes("\0")) throw invalid(name, "its name holds a NUL");
    if (name.split("/").includes("..")) throw invalid(name, "its name climbs out of the image");
    const path = normalize(name).replace(/\/$/, "");
    if (path === ".") return "";
    await this.#makeFolders(name, path);
    return path;
  }

  async #makeFolders(name: string, path: string): Promise<void> {
    const parent = dirname(path);
    if (parent === "." || this.#folders.has(parent)) return;
    await this.#makeFolders(name, parent);
    const found = await lstat(this.#at(parent)).catch(() => null);
    if (found === null) await mkdir(this.#at(parent), { mode: 0o755 });
    else if (!found.isDirectory())
      throw invalid(name, `${parent} is a link or a file, and it would be written through it`);
    this.#addFolder(parent);
  }

  #addFolder(path: string): void {
    this.#folders.add(path);
    if (!this.#folderTimes.has(path)) this.#folderTimes.set(path, 0);
  }

  /** Makes room for a member: a later one of the same name replaces an earlier, as in tar, but never a folder. */
  async #claim(path: string, kind: "folder" | "file" | "link"): Promise<void> {
    if (path === "") throw invalid("/", `the image's root must be a folder, not a ${kind}`);
    const found = await lstat(this.#at(path)).catch(() => null);
    if (found === null) return;
    if (found.isDirectory()) {
      if (kind === "folder") return;
      throw invalid(path, `it replaces a folder of the same name by a ${kind}`);
    }
    await unlink(this.#at(path));
  }

  async #ownFolder(path: string, attributes: Attributes): Promise<void> {
    await this.#own(path, attributes);
    this.#folderTimes.set(path, secondOf(attributes.mtime));
  }

  /** Set-id bits are dropped: in a sandbox without privileges they can only mislead. */
  async #own(path: string, { uid, gid, mode }: Attributes): Promise<void> {
    const at = this.#at(path);
    await chown(at, uid, gid);
    await chmod(at, mode & 0o1777);
  }

  #at(path: string): string {
    return path === "" ? this.#root : `${this.#root}/${path}`;
  }
}

export function invalid(name: string, why: string): DsecError {
  return new DsecError("IMAGE_INVALID", `image member ${JSON.stringify(name.slice(0, 300))}: ${why}`);
}

/** Whole seconds, as archives have them, so that a folder and an archive of it are one image. */
function secondOf(mtime: Date): number {
  const second = Math.floor(mtime.getTime() / 1000);
  return Number.isNaN(second) ? 0 : Math.min(Math.max(second, 0), LATEST_S);
}

function climbs(path: string): boolean {
  const normal = normalize(path);
  return normal === ".." || normal.startsWith("../");
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}
