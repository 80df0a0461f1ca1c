import { createHash } from "node:crypto";
import { openAsBlob } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";

/** A body that is whole, with its digest, until it is dropped. */
export type SpooledBody = { content: Uint8Array | Blob; digest: Digest; drop(): Promise<void> };

/**
 * Bodies on their way out. A call is signed over its body's digest, which goes ahead of it, so the body has to be whole
 * first: small ones in memory, larger ones in a file of the attempt's folder.
 */
export class Spool {
  readonly #directory: string;
  #bytes = 0;
  #last = 0;

  /** @param directory a private folder */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** @throws BODY_TOO_LARGE beyond `callBodyBytes`, or where the sandbox's bodies together pass `egressSpoolBytes` */
  async take(body: AsyncIterable<Uint8Array>): Promise<SpooledBody> {
    const path = join(this.#directory, `body-${++this.#last}`);
    const hash = createHash("sha256");
    const parts: Uint8Array[] = [];
    let size = 0;
    let file: FileHandle | null = null;
    const drop = async () => {
      this.#bytes -= size;
      size = 0;
      if (file !== null) await rm(path, { force: true });
    };
    try {
      for await (const part of body) {
        size += part.length;
        this.#bytes += part.length;
        this.#check(size);
        hash.update(part);
        if (file === null && size <= LIMITS.callBodyKeptBytes) {
          parts.push(part);
          continue;
        }
        if (file === null) {
          file = await open(path, "wx", 0o600);
          for (const kept of parts.splice(0)) await file.writeFile(kept);
        }
        await file.writeFile(part);
      }
    } catch (error) {
      await drop();
      throw error;
    } finally {
      await file?.close();
    }
    const digest = digestOf(hash.digest());
    if (file === null) return { content: Buffer.concat(parts), digest, drop };
    return { content: await openAsBlob(path), digest, drop };
  }

  #check(size: number): void {
    if (size > LIMITS.callBodyBytes) throw tooLarge(`a body is larger than ${LIMITS.callBodyBytes} bytes`);
    if (this.#bytes > LIMITS.egressSpoolBytes) {
      throw tooLarge(`bodies on their way out are larger than ${LIMITS.egressSpoolBytes} bytes together`);
    }
  }
}

function tooLarge(why: string): DsecError {
  return new DsecError("BODY_TOO_LARGE", `${why}; send less at once`);
}
