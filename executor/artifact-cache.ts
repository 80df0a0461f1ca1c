import { createHash, randomBytes } from "node:crypto";
import { mkdir, open, readdir, rename, rm, stat, unlink, utimes } from "node:fs/promises";
import { join } from "node:path";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";

/** Artifacts that no running task uses are removed, least recently used first, above this. */
const KEPT_BYTES = 8 * 1024 * 1024 * 1024;

export type FetchArtifact = (digest: Digest, signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>;

/**
 * Input artifacts on this host, each once, as read-only files named by digest. A file appears under its name only
 * after its content has been checked against it.
 */
export class ArtifactCache {
  readonly #directory: string;
  readonly #fetchArtifact: FetchArtifact;
  readonly #keptBytes: number;
  readonly #users = new Map<Digest, number>();
  readonly #fetches = new Map<Digest, Promise<void>>();

  private constructor(directory: string, fetchArtifact: FetchArtifact, keptBytes: number) {
    this.#directory = directory;
    this.#fetchArtifact = fetchArtifact;
    this.#keptBytes = keptBytes;
  }

  /** Opens the cache and removes downloads that an earlier life did not finish. */
  static async open(
    directory: string,
    fetchArtifact: FetchArtifact,
    keptBytes = KEPT_BYTES,
  ): Promise<ArtifactCache> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    for (const name of await readdir(directory)) {
      if (!/^sha256-[0-9a-f]{64}$/.test(name))
        await rm(join(directory, name), { recursive: true, force: true });
    }
    return new ArtifactCache(directory, fetchArtifact, keptBytes);
  }

  /**
   * The path of an artifact, fetched if it is not here; it stays until `release`. Waiting for a download that
   * another task began is no reason to begin a second.
   */
  async acquire(digest: Digest, signal: AbortSignal): Promise<string> {
    this.#users.set(digest, (this.#users.get(digest) ?? 0) + 1);
    try {
      const path = this.#path(digest);
      if (await exists(path)) {
        const now = new Date();
        await utimes(path, now, now);
      } else {
        await this.#fetchOnce(digest, signal);
      }
      return path;
    } catch (error) {
      this.release(digest);
      throw error;
    }
  }

  release(digest: Digest): void {
    const users = (this.#users.get(digest) ?? 0) - 1;
    if (users > 0) this.#users.set(digest, users);
    else this.#users.delete(digest);
  }

  /** Joins a download under way, and begins another where that one ended only because its own task was stopped. */
  async #fetchOnce(digest: Digest, signal: AbortSignal): Promise<void> {
    for (;;) {
      const current = this.#fetches.get(digest);
      if (current === undefined) {
        const fetching = this.#fetch(digest, signal).finally(() => this.#fetches.delete(digest));
        this.#fetches.set(digest, fetching);
        return fetching;
      }
      const failure = await current.then(
        () => null,
        (error: unknown) => ({ error }),
      );
      signal.throwIfAborted();
      if (failure === null) return;
      if (failure.error instanceof DsecError) throw failure.error;
    }
  }

  async #fetch(digest: Digest, signal: AbortSignal): Promise<void> {
    const temporary = join(this.#directory, `fetching-${randomBytes(8).toString("hex")}`);
    try {
      const body = await this.#fetchArtifact(digest, signal);
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
    await this.#evict();
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
      await unlink(this.#path(file.digest)).catch(() => {});
      total -= file.size;
    }
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
      await file.writeFile(chunk);
    }
  } catch (cause) {
    if (cause instanceof DsecError || signal.aborted) throw cause;
    throw new DsecError("GATEWAY_UNREACHABLE", `artifact ${digest}: the download broke off`, { cause });
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
