import { createHash } from "node:crypto";
import { constants as file } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { Readable } from "node:stream";
import { constants, createZstdCompress } from "node:zlib";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { type ArchiveMember, indexFrame } from "#trace/archive/index.ts";
import { MemberNames } from "#trace/archive/member-name.ts";
import { padded, TAR_END_BYTES, tarHeader } from "#trace/archive/tar.ts";
import { nodeEngine } from "./engine.ts";
import { type FileSink, publish } from "./files.ts";

export type WrittenArchive = { members: ArchiveMember[]; digest: Digest; size: number };

/**
 * Writes a `.tar.zst` that `tar --zstd` reads: each member is a zstd frame of its own, and an index tells where.
 * @param onMember is told each member before it is written
 * @throws INVALID_REQUEST for what is no regular file, and for names that no archive should have
 */
export async function writeArchive(
  output: string,
  files: readonly { path: string; name: string }[],
  onMember: (name: string, done: number) => void = () => {},
): Promise<WrittenArchive> {
  const names = new MemberNames(output);
  for (const { name } of files) names.add(name);
  names.checkTogether();
  return await publish(output, async (sink) => {
    const members: ArchiveMember[] = [];
    for (const { path, name } of files) {
      onMember(name, members.length);
      members.push(await writeMember(sink, path, name));
    }
    await writeFrame(sink, single(new Uint8Array(TAR_END_BYTES)));
    sink.write(indexFrame(members, nodeEngine.sha256));
    return { members };
  });
}

async function writeMember(sink: FileSink, path: string, name: string): Promise<ArchiveMember> {
  const handle = await opened(path);
  try {
    const { size, mtimeMs } = await handle.stat();
    const offset = sink.size;
    const hash = createHash("sha256");
    const header = tarHeader({ name, size, modifiedS: mtimeMs / 1000 });
    await writeFrame(
      sink,
      contentOf(handle, path, size, header, (bytes) => hash.update(bytes)),
    );
    return { name, size, digest: digestOf(hash.digest()), offset, bytes: sink.size - offset };
  } finally {
    await handle.close();
  }
}

async function opened(path: string): Promise<FileHandle> {
  let handle: FileHandle;
  try {
    // a pipe would be waited for
    handle = await open(path, file.O_RDONLY | file.O_NOFOLLOW | file.O_NONBLOCK);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = code === "ELOOP" ? "it is a link; name the file itself" : message;
    throw new DsecError("INVALID_REQUEST", `${path} cannot be archived: ${why}`, { cause });
  }
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw new DsecError("INVALID_REQUEST", `${path} is no regular file`);
}

async function* contentOf(
  handle: FileHandle,
  path: string,
  size: number,
  header: Uint8Array,
  onContent: (bytes: Uint8Array) => void,
): AsyncGenerator<Uint8Array> {
  yield header;
  let at = 0;
  while (at < size) {
    const bytes = new Uint8Array(Math.min(256 * 1024, size - at));
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, at);
    if (bytesRead === 0) {
      throw new DsecError(
        "INVALID_REQUEST",
        `${path} became shorter while it was archived; try again once it is whole`,
      );
    }
    at += bytesRead;
    const read = bytes.subarray(0, bytesRead);
    onContent(read);
    yield read;
  }
  yield new Uint8Array(padded(size) - size);
}

/** Traces are compressed already: what is gained by a higher level is not worth its time. */
const LEVEL = 1;

async function writeFrame(sink: FileSink, content: AsyncIterable<Uint8Array>): Promise<void> {
  const params = { [constants.ZSTD_c_compressionLevel]: LEVEL, [constants.ZSTD_c_checksumFlag]: 1 };
  const compress = createZstdCompress({ params });
  const source = Readable.from(content, { objectMode: false });
  source.on("error", (error) => compress.destroy(error));
  for await (const bytes of source.pipe(compress)) sink.write(bytes as Uint8Array);
}

async function* single(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
