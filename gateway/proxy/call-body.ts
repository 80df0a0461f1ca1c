import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { CallHead } from "#core/wire/calls.ts";
import type { Upstream } from "../upstream-port.ts";
import type { ByteReader } from "./framing.ts";

/** `Content-Digest` of no bytes. */
export const EMPTY_DIGEST = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";

/** The body of a call, whose digest the call signature binds. */
export type CallBody = {
  bytes: number;
  /** Whether `open` may be called again, for another hop. */
  replayable: boolean;
  /** @param moved is told of bytes as they leave, and may throw to stop them */
  open(moved: (bytes: number) => void): Uint8Array | ReadableStream<Uint8Array> | null;
};

/**
 * A small body is read and checked before anything is sent. Of a large one the last byte is held back until the
 * digest is found right: an altered body never arrives whole, because its Content-Length is never met.
 *
 * INVALID_REQUEST where the length is not what the head says, DIGEST_MISMATCH where the digest is not.
 */
export async function openCallBody(
  reader: ByteReader,
  head: Pick<CallHead, "content_length" | "content_digest" | "seq">,
  newHash: Upstream["hash"],
): Promise<CallBody> {
  const { content_length: bytes } = head;
  if (bytes > LIMITS.callBodyKeptBytes) return streamedBody(reader, head, newHash());
  const kept = await reader.take(bytes);
  if ((await reader.next()) !== null) throw wrongLength(head);
  // Most calls have no body, whose digest is known.
  if (bytes > 0 || head.content_digest !== EMPTY_DIGEST) {
    const hash = newHash();
    await hash.update(kept);
    await check(head, hash);
  }
  return {
    bytes,
    replayable: true,
    open(moved) {
      if (bytes === 0) return null;
      moved(bytes);
      return kept;
    },
  };
}

function streamedBody(
  reader: ByteReader,
  head: Pick<CallHead, "content_length" | "content_digest" | "seq">,
  hash: ReturnType<Upstream["hash"]>,
): CallBody {
  const open = (moved: (bytes: number) => void) => {
    let seen = 0;
    let last: Uint8Array | null = null;
    return new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          if (last !== null) {
            if ((await reader.next()) !== null) throw wrongLength(head);
            await check(head, hash);
            controller.enqueue(last);
            controller.close();
            return;
          }
          const piece = await reader.next();
          seen += piece?.length ?? 0;
          if (piece === null || seen > head.content_length) throw wrongLength(head);
          await hash.update(piece);
          moved(piece.length);
          if (seen < head.content_length) return controller.enqueue(piece);
          last = piece.subarray(-1);
          if (piece.length > 1) controller.enqueue(piece.subarray(0, -1));
          else await this.pull!(controller);
        },
        cancel: () => reader.cancel(),
      },
      { highWaterMark: 0 },
    );
  };
  return { bytes: head.content_length, replayable: false, open };
}

async function check(
  { seq, content_digest }: Pick<CallHead, "content_digest" | "seq">,
  hash: ReturnType<Upstream["hash"]>,
): Promise<void> {
  const hex = (await hash.digest()).slice("sha256:".length);
  const binary = String.fromCharCode(...hex.match(/../g)!.map((pair) => Number.parseInt(pair, 16)));
  if (content_digest === `sha-256=:${btoa(binary)}:`) return;
  throw new DsecError("DIGEST_MISMATCH", `call ${seq}: the body is not the one that content_digest names`);
}

function wrongLength({ seq, content_length }: Pick<CallHead, "content_length" | "seq">): DsecError {
  return new DsecError(
    "INVALID_REQUEST",
    `call ${seq}: the body does not have the ${content_length} bytes that its head says`,
  );
}
