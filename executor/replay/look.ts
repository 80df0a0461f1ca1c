/** Looks into a living sandbox's files from the host. Links are shown and never followed: they may lead to the host's own. */
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
} from "node:fs";
import { DsecError } from "#core/errors.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;

export type Entry = {
  name: string;
  kind: "file" | "directory" | "link" | "other";
  size: number;
  target: string | null;
};

/** @param pid of a process in the sandbox @throws NOT_FOUND */
export function listFolder(pid: number, path: string): Entry[] {
  return opened(pid, path, (fd) => {
    if (!fstatSync(fd).isDirectory()) throw new DsecError("NOT_FOUND", `${path} is no folder`);
    const names = readdirSync(`/proc/self/fd/${fd}`).sort();
    return names.slice(0, SHOWN_ENTRIES).map((name) => entryOf(`/proc/self/fd/${fd}/${name}`, name));
  });
}

/** The first bytes of a regular file. @throws NOT_FOUND */
export function readStart(pid: number, path: string, bytes: number): Buffer {
  return opened(pid, path, (fd) => {
    if (!fstatSync(fd).isFile()) throw new DsecError("NOT_FOUND", `${path} is no regular file`);
    const content = Buffer.alloc(bytes);
    return content.subarray(0, readSync(fd, content, 0, bytes, 0));
  });
}

const SHOWN_ENTRIES = 1_000;

function opened<T>(pid: number, path: string, look: (fd: number) => T): T {
  let fd = openSync(`/proc/${pid}/root`, O_RDONLY | O_DIRECTORY);
  try {
    for (const name of path.split("/")) {
      if (name === "" || name === ".") continue;
      const next = step(fd, name, path);
      closeSync(fd);
      fd = next;
    }
    return look(fd);
  } finally {
    closeSync(fd);
  }
}

/** One name further. What it is may change until it is opened: O_NOFOLLOW holds in any case. */
function step(fd: number, name: string, path: string): number {
  if (name === "..") throw new DsecError("NOT_FOUND", `${path}: name it without ..`);
  const at = `/proc/self/fd/${fd}/${name}`;
  try {
    const { kind, target } = entryOf(at, name);
    if (kind === "link")
      throw new DsecError("NOT_FOUND", `${path}: ${name} is a link to ${target}; name that`);
    if (kind === "other") throw new DsecError("NOT_FOUND", `${path}: ${name} is neither file nor folder`);
    return openSync(at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (cause) {
    if (cause instanceof DsecError) throw cause;
    const { code = "it cannot be opened" } = cause as NodeJS.ErrnoException;
    throw new DsecError("NOT_FOUND", `${path}: ${name}: ${code === "ENOENT" ? "not there" : code}`, {
      cause,
    });
  }
}

function entryOf(at: string, name: string): Entry {
  const stats = lstatSync(at);
  const { size } = stats;
  if (stats.isSymbolicLink()) return { name, kind: "link", size, target: readlinkSync(at) };
  const kind = stats.isFile() ? "file" : stats.isDirectory() ? "directory" : "other";
  return { name, kind, size, target: null };
}
