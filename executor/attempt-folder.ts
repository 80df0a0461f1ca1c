import { existsSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { z } from "zod";
import { DigestSchema } from "#core/wire/common.ts";
import { CompleteRequestSchema, type Hold, HoldSchema } from "#core/wire/leases.ts";
import { holdOfSandbox, sandboxId } from "./plan.ts";

/** The end of an attempt as it lies on disk until the gateway has taken it. */
export type Finish = z.infer<typeof FinishSchema>;
const FinishSchema = z.object({
  hold: HoldSchema,
  complete: CompleteRequestSchema,
  /** The trace that the evidence names and where it lies; null where there is none. */
  trace: z
    .object({ digest: DigestSchema, size: z.number().int().min(0), path: z.string() })
    .nullable()
    .default(null),
});

/**
 * One attempt's private folder: its standard input, what it wrote, its outputs, and at the end its finish. It lasts
 * until the gateway has taken the finish or refused it, so that neither an outage nor a crash loses a result.
 *
 * What takes the kernel microseconds is asked for at once: handed to another thread and back, each step waits for two
 * turns of a busy event loop.
 */
export class AttemptFolder {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** One that is no attempt's yet. */
  static async make(path: string): Promise<AttemptFolder> {
    await mkdir(path, { mode: 0o700 });
    return new AttemptFolder(path);
  }

  /** From now on its name is the lease's, which the next life of this executor answers for after a crash. */
  giveTo(attemptsDirectory: string, hold: Hold): AttemptFolder {
    const folder = new AttemptFolder(join(attemptsDirectory, sandboxId(hold)));
    renameSync(this.path, folder.path);
    return folder;
  }

  /** Folders that an earlier life of this executor left. */
  static async list(attemptsDirectory: string): Promise<AttemptFolder[]> {
    const entries = await readdir(attemptsDirectory, { withFileTypes: true });
    // Whatever is not a folder was not made here; a link in particular is not followed.
    return entries
      .filter((e) => e.isDirectory())
      .map((e) => new AttemptFolder(join(attemptsDirectory, e.name)));
  }

  get stdin(): string {
    return join(this.path, "stdin");
  }
  get stdout(): string {
    return join(this.path, "stdout");
  }
  get stderr(): string {
    return join(this.path, "stderr");
  }
  get outputs(): string {
    return join(this.path, "outputs");
  }

  /** Written beside its place and renamed, so that a finish is whole or absent. */
  writeFinish(finish: Finish): void {
    const temporary = join(this.path, "finish.tmp");
    writeFileSync(temporary, JSON.stringify(finish), { mode: 0o600 });
    renameSync(temporary, join(this.path, "finish.json"));
  }

  /** Null where the attempt had not ended, `unreadable` where it had and nobody can say how. */
  async readFinish(): Promise<Finish | "unreadable" | null> {
    const path = join(this.path, "finish.json");
    if (!existsSync(path)) return null;
    try {
      return FinishSchema.parse(JSON.parse(await readFile(path, "utf8")));
    } catch {
      return "unreadable";
    }
  }

  /** The lease that the attempt ran under; null where this is no attempt's folder. */
  get hold(): Hold | null {
    return holdOfSandbox(basename(this.path));
  }

  /** Killed in the middle of it, this executor must not find a finish whose outputs are gone: first the lease's name goes. */
  async remove(): Promise<void> {
    const leaving = new AttemptFolder(this.hold === null ? this.path : `${this.path}.done`);
    if (leaving.path !== this.path && existsSync(this.path)) renameSync(this.path, leaving.path);
    // Large files take longer to remove, and only outputs are large.
    if (existsSync(leaving.outputs)) await rm(leaving.outputs, { recursive: true, force: true });
    rmSync(leaving.path, { recursive: true, force: true });
  }
}
