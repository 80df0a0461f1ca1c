import { closeSync, constants, fstatSync, openSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { OutputSource } from "#executor/output-walk.ts";

/**
 * A folder of this host in the place of an ended sandbox, for what does not depend on links: those are resolved by
 * the launcher and tested with it.
 */
export class FolderSource implements OutputSource, AsyncDisposable {
  readonly #root: string;
  readonly target: string;

  private constructor(root: string) {
    this.#root = join(root, "root");
    this.target = join(root, "target");
  }

  static async of(files: (string | [path: string, content: string])[]): Promise<FolderSource> {
    const source = new FolderSource(await mkdtemp(join(tmpdir(), "dsec-outputs-")));
    await mkdir(source.#root, { recursive: true });
    for (const file of files) {
      const [path, content] = typeof file === "string" ? [file, file] : file;
      await mkdir(dirname(source.#root + path), { recursive: true });
      await writeFile(source.#root + path, content);
    }
    return source;
  }

  openOutput(path: Uint8Array): number | null {
    let descriptor: number;
    try {
      descriptor = openSync(this.#at(path), constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    } catch {
      return null;
    }
    if (fstatSync(descriptor).isFile()) return descriptor;
    closeSync(descriptor);
    return null;
  }

  listOutput(path: Uint8Array): ReturnType<OutputSource["listOutput"]> {
    try {
      const entries = readdirSync(this.#at(path), { withFileTypes: true, encoding: "buffer" });
      // A name at a time, as a long folder comes in pieces.
      return entries.map((entry) => [
        {
          name: entry.name,
          kind: entry.isDirectory()
            ? "directory"
            : entry.isFile()
              ? "file"
              : entry.isSymbolicLink()
                ? "link"
                : "other",
        },
      ]);
    } catch {
      return [];
    }
  }

  #at(path: Uint8Array): Buffer {
    return Buffer.concat([Buffer.from(this.#root), path]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(dirname(this.target), { recursive: true, force: true });
  }
}
