import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { extract, type Header } from "tar-stream";
import { DsecError } from "#core/errors.ts";
import { unpackZstd } from "#trace/node/unpack-zstd.ts";
import { invalid, RootWriter } from "./root-writer.ts";

/** Unpacks a tar archive (ustar, GNU or pax; plain, gzip, xz or zstd) into an empty folder, member by member. */
export async function extractTar(
  archive: string,
  root: string,
  onProgress: (text: string) => void,
): Promise<{ members: number; bytes: number }> {
  const writer = new RootWriter(root);
  const members = extract();
  const source = await openArchive(archive);
  source.on("error", (error) => members.destroy(error));
  source.pipe(members);
  try {
    for await (const member of members) {
      await takeMember(writer, member.header, Readable.from(member as AsyncIterable<Buffer>));
      if (writer.members % 5_000 === 0) onProgress(`unpacked ${writer.members} files`);
    }
  } catch (cause) {
    if (cause instanceof DsecError && cause.code !== "TRACE_CORRUPT") throw cause;
    throw new DsecError(
      "IMAGE_INVALID",
      `${archive} is not a whole tar archive: ${(cause as Error).message}`,
      { cause },
    );
  } finally {
    source.destroy();
  }
  if (writer.members === 0)
    throw new DsecError("IMAGE_INVALID", `${archive} is not a tar archive, or it is empty`);
  await writer.finish();
  return writer;
}

async function takeMember(writer: RootWriter, header: Header, content: Readable): Promise<void> {
  const { name, linkname } = header;
  const { uid = 0, gid = 0, mode = 0o644, mtime = new Date(0) } = header;
  const attributes = { uid, gid, mode, mtime };
  switch (header.type) {
    case "directory":
      await writer.folder(name, attributes);
      break;
    case "file":
    case "contiguous-file":
      await writer.file(name, content, attributes);
      return; // it has read the content
    case "symlink":
      await writer.symbolicLink(name, linkname ?? "", attributes);
      break;
    case "link":
      await writer.hardLink(name, linkname ?? "");
      break;
    default:
      throw invalid(
        name,
        `it is a ${header.type ?? "member of unknown type"}; an image holds folders, files and links`,
      );
  }
  content.resume();
}

/** The archive's bytes, unpacked by what its first bytes say; names of files say nothing. */
async function openArchive(path: string): Promise<Readable> {
  const file = await open(path, "r");
  const magic = Buffer.alloc(6);
  await file.read(magic, 0, magic.length, 0).finally(() => file.close());
  const bytes = createReadStream(path, { highWaterMark: 1024 * 1024 });
  if (magic.subarray(0, 2).equals(Buffer.from([0x1f, 0x8b]))) return through(bytes, createGunzip());
  if (magic.readUInt32LE(0) === 0xfd2fb528) {
    return Readable.from(unpackZstd(bytes, path), { objectMode: false });
  }
  if (magic.equals(Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00]))) {
    bytes.destroy();
    return Readable.from(unxz(path), { objectMode: false });
  }
  return bytes;
}

function through(bytes: Readable, decompress: NodeJS.ReadWriteStream & Readable): Readable {
  bytes.on("error", (error) => decompress.destroy(error));
  decompress.on("close", () => bytes.destroy());
  return bytes.pipe(decompress);
}

/** Node has no xz; the xz(1) of every Debian has. Only once it has ended well is what it wrote known to be whole. */
async function* unxz(path: string): AsyncGenerator<Buffer> {
  const child = spawn("xz", ["--decompress", "--stdout", "--", path], { stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "close") as Promise<[code: number | null]>;
  ended.catch(() => {}); // told by its output
  child.on("error", (cause) => child.stdout.destroy(new Error(`xz does not start: ${cause.message}`)));
  const message: Buffer[] = [];
  child.stderr.on("data", (chunk: Buffer) => message.push(chunk));
  try {
    yield* child.stdout;
    const [code] = await ended;
    if (code !== 0) throw new Error(Buffer.concat(message).toString().trim());
  } finally {
    child.kill();
  }
}
