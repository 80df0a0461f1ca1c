/**
 * Blobs in R2 under `sha256/<64 hex digits>`. Content is hashed while it arrives, and completed only when it is what
 * was announced; an upload that is cut off leaves a multipart upload that R2 itself drops after a week.
 */
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import type { BlobStore } from "../ports.ts";

/** Above R2's smallest part (5 MiB); one part is all the memory that an upload takes. */
const PART_BYTES = 8 * 1024 * 1024;

export function createR2Blobs(bucket: R2Bucket): BlobStore {
  return {
    async put(expected, body, maxBytes) {
      const parts = partsOf(body, maxBytes);
      const exists = expected !== null && (await bucket.head(keyOf(expected))) !== null;
      const upload = exists ? discard() : beginUpload(bucket, expected);
      const hash = new crypto.DigestStream("SHA-256");
      const hashing = hash.getWriter();
      let size = 0;
      try {
        for await (const part of parts) {
          size += part.length;
          await Promise.all([hashing.write(part), upload.write(part)]);
        }
        await hashing.close();
        const digest = digestOf(new Uint8Array(await hash.digest));
        if (expected !== null && digest !== expected) {
          throw new DsecError(
            "DIGEST_MISMATCH",
            `the content is ${digest}, not ${expected}; nothing was kept`,
          );
        }
        await upload.finish(digest);
        return { digest, size };
      } catch (error) {
        hash.digest.catch(() => {});
        await hashing.abort(error).catch(() => {});
        await upload.abandon();
        throw error;
      }
    },

    async get(digest) {
      const object = await bucket.get(keyOf(digest));
      return object === null ? null : { size: object.size, body: object.body };
    },

    async size(digest) {
      return (await bucket.head(keyOf(digest)))?.size ?? null;
    },
  };
}

type Upload = {
  /** Takes parts of exactly PART_BYTES, but for the last. */
  write(part: Uint8Array): Promise<void>;
  finish(digest: Digest): Promise<void>;
  abandon(): Promise<void>;
};

/** For content that is there already: it is only checked. */
function discard(): Upload {
  return { write: async () => {}, finish: async () => {}, abandon: async () => {} };
}

/**
 * One part is kept until it is known whether more comes: most content is one small object. What has more goes up in
 * parts, under its final name where the digest is known beforehand.
 */
function beginUpload(bucket: R2Bucket, expected: Digest | null): Upload {
  const key = expected === null ? `incoming/${crypto.randomUUID()}` : keyOf(expected);
  let first: Uint8Array = new Uint8Array(0);
  let multipart: R2MultipartUpload | undefined;
  const uploaded: R2UploadedPart[] = [];
  const send = async (part: Uint8Array) => {
    multipart ??= await bucket.createMultipartUpload(key);
    uploaded.push(await multipart.uploadPart(uploaded.length + 1, part));
  };
  return {
    async write(part) {
      if (multipart === undefined && first.length === 0) {
        first = part;
        return;
      }
      if (multipart === undefined) await send(first);
      await send(part);
    },
    async finish(digest) {
      if (multipart === undefined) {
        await bucket.put(keyOf(digest), first);
        return;
      }
      const object = await multipart.complete(uploaded);
      if (expected !== null) return;
      // R2 cannot rename: the content is read once more to get the name that is known only now.
      const whole = await bucket.get(object.key);
      if (whole === null) {
        throw new DsecError("STORE_UNAVAILABLE", `${digest} went before it had its name; send it again`);
      }
      await bucket.put(keyOf(digest), whole.body);
      await bucket.delete(object.key);
    },
    async abandon() {
      if (multipart === undefined) return;
      await multipart.abort().catch(() => {});
      // Once it is complete there is nothing to abort, and what has no name yet would stay for ever.
      if (expected === null) await bucket.delete(key).catch(() => {});
    },
  };
}

/** The body cut into parts of PART_BYTES, counted while it comes. */
async function* partsOf(body: ReadableStream<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let buffer = new Uint8Array(0);
  let filled = 0;
  let total = 0;
  for await (let chunk of body) {
    total += chunk.length;
    if (total > maxBytes) {
      throw new DsecError("BODY_TOO_LARGE", `the content is larger than ${maxBytes} bytes`, {
        details: { max_bytes: maxBytes },
      });
    }
    while (chunk.length > 0) {
      if (buffer.length < filled + chunk.length && buffer.length < PART_BYTES) {
        // Grows with what comes, so that small bodies do not take a whole part of memory.
        const larger = new Uint8Array(
          Math.min(PART_BYTES, Math.max(buffer.length * 2, filled + chunk.length)),
        );
        larger.set(buffer.subarray(0, filled));
        buffer = larger;
      }
      const taken = Math.min(chunk.length, buffer.length - filled);
      buffer.set(chunk.subarray(0, taken), filled);
      filled += taken;
      chunk = chunk.subarray(taken);
      if (filled === PART_BYTES) {
        yield buffer;
        buffer = new Uint8Array(0);
        filled = 0;
      }
    }
  }
  if (filled > 0) yield buffer.subarray(0, filled);
}

function keyOf(digest: Digest): string {
  return `sha256/${digest.slice("sha256:".length)}`;
}
