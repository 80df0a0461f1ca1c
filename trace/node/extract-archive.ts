import { createHash } from "node:crypto";
import { closeSync, fsyncSync, writeSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { DsecError } from "#core/errors.ts";
import { digestOf } from "#core/json.ts";
import { type ArchiveMember, readIndex } from "#trace/archive/index.ts";
import { checkTarHeader, padded, tarHeader } from "#trace/archive/tar.ts";
import type { Source } from "#trace/format/walk.ts";
import { corruptArchive, frameDoesNotUnpack } from "./corrupt-archive.ts";
import { nodeEngine } from "./engine.ts";
import { temporaryName } from "./files.ts";
import { Folder } from "./folder.ts";
import { foreignFiles, listForeign } from "./foreign-archive.ts";
import { removedAfter } from "./temporary.ts";
import { unpackFrame } from "./unpack-zstd.ts";

export type Extracted = { name: string; size: number };

/**
 * Writes members of a `.tar.zst` below a folder. By its index only their own bytes are read; an archive without one is read
 * twice, first to see that all of it may be extracted.
 * @param names the members wanted; all where there are none
 * @throws INVALID_REQUEST for an archive that holds what would be written elsewhere, or is no plain file; NOT_FOUND for a name that
 * it does not have; TRACE_EXISTS; TRACE_CORRUPT. Nothing is written of an archive that is refused.
 */
export async function extractArchive(
  source: Source,
  folder: string,
  names: readonly string[],
  onMember: (name: string, done: number) => void = () => {},
): Promise<Extracted[]> {
  const index = await readIndex(source, nodeEngine.sha256);
  const members = index ?? (await listForeign(source));
  const wanted = chosen(members, names, source.name);
  await mkdir(folder, { recursive: true });
  const root = Folder.open(folder);
  try {
    for (const { name } of wanted) refuseTaken(root, name);
    if (index === null) {
      const files = new Set(wanted.map(({ name }) => name));
      let done = 0;
      for await (const { name, content } of foreignFiles(source)) {
        if (!files.has(name)) continue;
        onMember(name, done++);
        await writeMember(root, name, async (write) => {
          for await (const bytes of content) write(bytes);
        });
      }
    } else {
      for (const [done, member] of (wanted as ArchiveMember[]).entries()) {
        onMember(member.name, done);
        await extractMember(source, member, root);
      }
    }
  } finally {
    root.close();
  }
  return wanted.map(({ name, size }) => ({ name, size }));
}

/** Names and sizes, without reading contents where there is an index. */
export async function listArchive(source: Source): Promise<Extracted[]> {
  const members = (await readIndex(source, nodeEngine.sha256)) ?? (await listForeign(source));
  return members.map(({ name, size }) => ({ name, size }));
}

function chosen<M extends Extracted>(members: M[], names: readonly string[], archive: string): M[] {
  if (names.length === 0) return members;
  const known = new Map(members.map((member) => [member.name, member]));
  return [...new Set(names)].map((name) => {
    const member = known.get(name);
    if (member === undefined) {
      throw new DsecError(
        "NOT_FOUND",
        `${archive} has no member ${JSON.stringify(name)}; list them with --list`,
      );
    }
    return member;
  });
}

async function extractMember(source: Source, member: ArchiveMember, root: Folder): Promise<void> {
  const header = tarHeader({ name: member.name, size: member.size, modifiedS: 0 }).length;
  const total = header + padded(member.size);
  let held = new Uint8Array();
  let at = 0;
  const hash = createHash("sha256");
  await writeMember(root, member.name, async (write) => {
    for await (const bytes of unpacked(frameBytes(source, member), total, member, source.name)) {
      let content = bytes;
      if (at < header) {
        held = Buffer.concat([held, bytes]);
        at += bytes.length;
        if (held.length < header) continue;
        checkTarHeader(held.subarray(0, header), member, source.name);
        content = held.subarray(header);
        at = header;
      }
      const inside = content.subarray(0, Math.max(0, header + member.size - at));
      at += content.length;
      hash.update(inside);
      write(inside);
    }
    if (at !== total || digestOf(hash.digest()) !== member.digest) {
      throw corruptArchive(source.name, `member ${JSON.stringify(member.name)} is not as it was archived`);
    }
  });
}

async function* frameBytes(source: Source, { offset, bytes }: ArchiveMember): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes; at += PIECE_BYTES) {
    yield await source.read(offset + at, Math.min(PIECE_BYTES, bytes - at));
  }
}

const PIECE_BYTES = 256 * 1024;

/** One zstd frame's content, of which no more is unpacked than it must hold. */
async function* unpacked(
  frame: AsyncIterable<Uint8Array>,
  mostBytes: number,
  member: { name: string },
  archive: string,
): AsyncGenerator<Uint8Array> {
  let total = 0;
  try {
    for await (const bytes of unpackFrame(frame)) {
      total += bytes.length;
      if (total > mostBytes) {
        throw corruptArchive(archive, `member ${JSON.stringify(member.name)} unpacks to more than its size`);
      }
      yield bytes;
    }
  } catch (cause) {
    if (cause instanceof DsecError) throw cause;
    throw frameDoesNotUnpack(archive, cause);
  }
}

/** Under a temporary name first: a member is there whole or not at all. */
async function writeMember(
  root: Folder,
  name: string,
  content: (write: (bytes: Uint8Array) => void) => Promise<void>,
): Promise<void> {
  const parts = name.split("/");
  const last = parts.pop()!;
  const opened: Folder[] = [];
  let folder = root;
  try {
    for (const part of parts) {
      folder = folder.madeFolder(part);
      opened.push(folder);
    }
    const temporary = temporaryName(last);
    const fd = folder.makeFile(temporary);
    const remove = () => folder.unlink(temporary);
    await removedAfter(remove, async () => {
      try {
        await content((bytes) => writeAll(fd, bytes));
        fsyncSync(fd);
      } finally {
        closeSync(fd);
      }
      // unlike a rename, a link never replaces what has the name already
      folder.link(temporary, last);
      folder.sync();
    });
  } catch (cause) {
    if (cause instanceof DsecError) throw cause;
    const { code, message } = cause as NodeJS.ErrnoException;
    const path = `${root.path}/${name}`;
    if (code === "EEXIST") throw taken(path);
    throw new DsecError("TRACE_UNWRITABLE", `${path} cannot be written: ${message}`, { cause });
  } finally {
    for (const one of opened) one.close();
  }
}

function writeAll(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
}

/** Before anything is written. @throws TRACE_EXISTS, and INVALID_REQUEST where a link stands in the way */
function refuseTaken(root: Folder, name: string): void {
  const parts = name.split("/");
  const opened: Folder[] = [];
  try {
    let folder = root;
    for (const part of parts.slice(0, -1)) {
      if (folder.stat(part) === null) return;
      folder = folder.folder(part);
      opened.push(folder);
    }
    if (folder.stat(parts.at(-1)!) !== null) throw taken(`${root.path}/${name}`);
  } finally {
    for (const one of opened) one.close();
  }
}

function taken(path: string): DsecError {
  return new DsecError("TRACE_EXISTS", `${path} exists already; choose another folder, or remove it first`);
}
