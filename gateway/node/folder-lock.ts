import { closeSync, openSync, readdirSync, renameSync, rmSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";

export type FolderLock = { release(): Promise<void> };

/**
 * Takes the lock of this name in a folder for this process, or says undefined: another has it, or tries to just now.
 *
 * The lock is a Unix socket in the folder that its process listens on. Whether somebody listens, the kernel knows, whatever
 * network and PID namespaces the two are in: two containers that share a volume see each other, and a process that was
 * killed leaves a file and no lock. Everybody listens first and looks for others then, so that of two at once at least
 * one sees the other; and each socket has a name of its own, so that whoever removes one that is dead removes nobody's.
 * @throws the system's error where the file system has no sockets, or the folder is somebody else's
 */
export async function lockFolder(folder: string, name: string): Promise<FolderLock | undefined> {
  const own = `${name}.${crypto.randomUUID()}`;
  const directory = openSync(folder, "r");
  let server: Server | undefined;
  const release = async () => {
    rmSync(within(directory, own), { force: true });
    if (server !== undefined) await new Promise((resolve) => server?.close(resolve));
    closeSync(directory);
  };
  try {
    server = await listen(within(directory, `.${own}`));
    // Found by others once it listens, and not before.
    renameSync(within(directory, `.${own}`), within(directory, own));
    for (const other of socketsOf(directory, name).filter((path) => path !== within(directory, own))) {
      if (await isListenedOn(other)) {
        await release();
        return undefined;
      }
      rmSync(other, { force: true });
    }
    return { release };
  } catch (error) {
    await release();
    throw error;
  }
}

/** Whether a process has the lock, or tries to just now. */
export async function isFolderLocked(folder: string, name: string): Promise<boolean> {
  const directory = openSync(folder, "r");
  try {
    for (const socket of socketsOf(directory, name)) if (await isListenedOn(socket)) return true;
    return false;
  } finally {
    closeSync(directory);
  }
}

function socketsOf(directory: number, name: string): string[] {
  return readdirSync(within(directory, ""), { withFileTypes: true })
    .filter((file) => file.isSocket() && file.name.startsWith(`${name}.`))
    .map((file) => within(directory, file.name));
}

/** By way of the descriptor, because the address of a socket holds 107 bytes and paths are longer (unix(7)). */
function within(directory: number, file: string): string {
  return `/proc/self/fd/${directory}/${file}`;
}

function listen(path: string): Promise<Server> {
  const server = createServer((socket) => socket.destroy()).unref();
  return new Promise((resolve, reject) => {
    server.once("error", reject).listen(path, () => resolve(server));
  });
}

/** No only where the kernel says so: an answer that is none, as of another user's socket, may hide a process. */
function isListenedOn(path: string): Promise<boolean> {
  const socket = connect(path);
  return new Promise((resolve) => {
    socket.once("connect", () => resolve(true));
    socket.once("error", ({ code }: NodeJS.ErrnoException) =>
      resolve(code !== "ECONNREFUSED" && code !== "ENOENT"),
    );
  }).then((listened) => {
    socket.destroy();
    return listened as boolean;
  });
}
