import { createHash, randomBytes } from "node:crypto";
import { renameSync } from "node:fs";
import { mkdir, open, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { unlessAborted, untilAnswered } from "./retry.ts";

/** Artifacts that no running task uses are removed, least recently used first, above this. */
const KEPT_BYTES = 8 * 1024 * 1024 * 1024;

/** Content as it comes. Where it cannot be had now, or breaks off, it rejects with a failure that passes (retry.ts). */
export type FetchArtifact = (digest: Digest, signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>;

type Options = { keptBytes?: number; onFailure?: (error: DsecError) => void };

/** A download that belongs to all users of its artifact. */
type Download = { stop: AbortController; done: Promise<void> };

/**
 * Input artifacts on this host, each once, as read-only files named by digest. A file appears under its name only
 * after its content has been checked against it.
 */
export class ArtifactCache {
  readonly #directory: string;
  readonly #fetchArtifact: FetchArtifact;
  readonly #keptBytes: number;
  readonly #onFailure: Options["onFailure"];
  readonly #users = new Map<Digest, number>();
  readonly #downloads = new Map<Digest, Download>();

  private constructor(directory: string, fetchArtifact: FetchArtifact, options: Options) {
    this.#directory = directory;
    this.#fetchArtifact = fetchArtifact;
    this.#keptBytes = options.keptBytes ?? KEPT_BYTES;
    this.#onFailure = options.onFailure;
  }

  /**
   * Opens the cache and removes downloads that an earlier life did not finish.
   * @param options.onFailure called for each failure after which a download is tried anew
   */
  static async open(
    directory: string,
    fetchArtifact: FetchArtifact,
    options: Options = {},
  ): Promise<ArtifactCache> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    for (const name of await readdir(directory)) {
      if (!/^sha256-[0-9a-f]{64}$/.test(name))
        await rm(join(directory, name), { recursive: true, force: true });
    }
    return new ArtifactCache(directory, fetchArtifact, options);
  }

  /**
   * The path of an artifact, fetched if it is not here; it stays until `release`. Outages of the gateway are waited
   * for. Rejects with the signal's reason as soon as it aborts, whoever else waits for the same download.
   * @throws DIGEST_MISMATCH, BODY_TOO_LARGE; HOST_UNSUITABLE where it cannot be written; what the gateway refuses
   */
  async acquire(digest: Digest, signal: AbortSignal): Promise<string> {
    this.#users.set(digest, (this.#users.get(digest) ?? 0) + 1);
    try {
      await this.#provided(digest, signal);
      return this.#path(digest);
    } catch (error) {
      this.release(digest);
      throw error;
    }
  }

  release(digest: Digest): void {
    const users = (this.#users.get(digest) ?? 0) - 1;
    if (users > 0) {
      this.#users.set(digest, users);
      return;
    }
    this.#users.delete(digest);
    this.#downloads.get(digest)?.stop.abort();
    this.#downloads.delete(digest);
  }

  /**
   * Joins what provides it already, which goes on for the others when one leaves and ends with the last of them.
   * The look at the disk is a part of it, so that nothing can end between that look and what follows from it.
   */
  async #provided(digest: Digest, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const download = this.#downloads.get(digest) ?? this.#begin(digest);
    await unlessAborted(download.done, signal);
  }

  #begin(digest: Digest): Download {
    const stop = new AbortController();
    const done = this.#download(digest, stop.signal).finally(() => {
      if (this.#downloads.get(digest) === download) this.#downloads.delete(digest);
    });
    const download = { stop, done };
    this.#downloads.set(digest, download);
    return download;
  }

  async #download(digest: Digest, signal: AbortSignal): Promise<void> {
    const path = this.#path(digest);
    if (await exists(path)) {
      const now = new Date();
      await utimes(path, now, now);
      return;
    }
    await untilAnswered(() => this.#fetch(digest, signal), { signal, onFailure: this.#onFailure });
    await this.#evict();
  }

  async #fetch(digest: Digest, signal: AbortSignal): Promise<void> {
    const temporary = this.#temporary();
    try {
      const body = await this.#fetchArtifact(digest, signal);
      signal.throwIfAborted();
      const found = await writeHashed(body, temporary, digest, signal);
      if (found !== digest) {
        throw new DsecError(
          "DIGEST_MISMATCH",
          `artifact ${digest}: what the gateway sent has digest ${found}`,
        );
      }
      await rename(temporary, this.#path(digest));
    } finally {
      await rm(temporary, { force: true });
    }
  }

  async #evict(): Promise<void> {
    const files: { digest: Digest; size: number; usedAtMs: number }[] = [];
    for (const name of await readdir(this.#directory)) {
      const digest = name.replace("-", ":") as Digest;
      const { size, mtimeMs } = await stat(join(this.#directory, name)).catch(() => ({
        size: 0,
        mtimeMs: 0,
      }));
      files.push({ digest, size, usedAtMs: mtimeMs });
    }
    let total = files.reduce((sum, file) => sum + file.size, 0);
    for (const file of files.sort((a, b) => a.usedAtMs - b.usedAtMs)) {
      if (total <= this.#keptBytes) return;
      if (this.#users.has(file.digest) || !file.digest.startsWith("sha256:")) continue;
      total -= file.size;
      const removed = this.#temporary();
      try {
        // At once with the look at its users, so that no task comes between and finds a file that goes away.
        renameSync(this.#path(file.digest), removed);
      } catch {
        continue; // another download's eviction has it
      }
      await rm(removed, { force: true });
    }
  }

  /** A name that only this life uses: the next one removes what has it. */
  #temporary(): string {
    return join(this.#directory, `temporary-${randomBytes(8).toString("hex")}`);
  }

  #path(digest: Digest): string {
    return join(this.#directory, digest.replace(":", "-"));
  }
}

/** Readable and executable for everyone: an input may be a program, and the sandbox's user is none of the host's. */
const MODE = 0o555;

async function writeHashed(
  body: AsyncIterable<Uint8Array>,
  path: string,
  digest: Digest,
  signal: AbortSignal,
): Promise<Digest> {
  const hash = createHash("sha256");
  const file = await open(path, "wx", MODE);
  let size = 0;
  try {
    for await (const chunk of body) {
      signal.throwIfAborted();
      size += chunk.length;
      if (size > LIMITS.artifactBytes) {
        throw new DsecError(
          "BODY_TOO_LARGE",
          `artifact ${digest} has more than ${LIMITS.artifactBytes} bytes`,
        );
      }
      hash.update(chunk);
      await file.writeFile(chunk).catch((cause: Error) => {
        // Not the gateway's failure: trying again would fetch it for nothing.
        const message = `artifact ${digest} cannot be written: ${cause.message}; make room on the disk of ${path}`;
        throw new DsecError("HOST_UNSUITABLE", message, { cause });
      });
    }
  } finally {
    await file.close();
  }
  return digestOf(hash.digest());
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
