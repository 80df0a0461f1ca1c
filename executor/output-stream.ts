import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import type { Readable } from "node:stream";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Stream } from "#core/wire/tasks.ts";

/** Where live output goes. Called in order; returns at once. */
export type LiveSink = {
  data(offset: number, bytes: Uint8Array): void;
  /** What follows is kept but not sent live. Called at most once. */
  truncated(): void;
};

/**
 * Drains one stream of a sandbox to its end: the first `streamKeptBytes` to a file, the first `streamLiveBytes` to
 * the sink, everything counted. It never stops reading, so a command cannot block on a bound; and it never decodes,
 * for output is bytes.
 * @param path the file for the kept bytes; not made where the stream is empty
 */
export async function captureStream(source: Readable, path: string, live: LiveSink): Promise<Stream> {
  const hash = createHash("sha256");
  let file: FileHandle | null = null;
  let totalBytes = 0;
  let truncated = false;
  try {
    for await (const chunk of source as AsyncIterable<Buffer>) {
      const offset = totalBytes;
      totalBytes += chunk.length;
      const liveBytes = chunk.subarray(0, Math.max(0, LIMITS.streamLiveBytes - offset));
      if (liveBytes.length > 0) live.data(offset, liveBytes);
      if (liveBytes.length < chunk.length && !truncated) {
        truncated = true;
        live.truncated();
      }
      const kept = chunk.subarray(0, Math.max(0, LIMITS.streamKeptBytes - offset));
      if (kept.length > 0) {
        hash.update(kept);
        file ??= await open(path, "w", 0o600);
        await file.writeFile(kept);
      }
    }
  } finally {
    await file?.close();
  }
  return {
    digest: digestOf(hash.digest()),
    kept_bytes: Math.min(totalBytes, LIMITS.streamKeptBytes),
    total_bytes: totalBytes,
  };
}
