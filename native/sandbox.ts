/** Node's side of one sandbox: two streams, one end, one folder to look into. */
import { Socket } from "node:net";
import type { Readable } from "node:stream";
import { type DirectoryEntry, loadAddon } from "./addon.ts";
import type { Observation, Sandbox, SandboxEnd } from "./index.ts";

export type Launched = { pid: number; launchUs: number; observation: Observation };

/** Its two streams and the root of its file system; the listening sockets come after them. */
export const SANDBOX_DESCRIPTORS = 3;

/** What a sandbox asks of the launcher's connection. */
export type SandboxRequests = {
  kill(id: string): void;
  destroy(id: string): Promise<void>;
};

export class LaunchedSandbox implements Sandbox {
  readonly id: string;
  readonly observation: Observation;
  readonly launchUs: number;
  readonly pid: number;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly listeners: readonly number[];
  readonly ended: Promise<SandboxEnd>;

  #diskBytes = 0;
  readonly #requests: SandboxRequests;
  readonly #end = Promise.withResolvers<SandboxEnd>();
  #state: "running" | "ended" | "destroyed" = "running";
  #root: number;
  #destroyed: Promise<void> | undefined;

  /** Takes over the descriptors: the read ends of both streams, the root of the file system, the listening sockets. */
  constructor(id: string, launched: Launched, descriptors: number[], requests: SandboxRequests) {
    const [stdout, stderr, root, ...listeners] = descriptors as [number, number, number, ...number[]];
    this.id = id;
    this.observation = launched.observation;
    this.launchUs = launched.launchUs;
    this.pid = launched.pid;
    this.stdout = pipeStream(stdout);
    this.stderr = pipeStream(stderr);
    this.listeners = listeners;
    this.#root = root;
    this.#requests = requests;
    this.ended = this.#end.promise;
    // Whoever does not wait for the end must not be told of a lost launcher by a crash.
    this.ended.catch(() => {});
  }

  get diskBytes(): number {
    return this.#diskBytes;
  }

  /** The launcher has measured the layer. */
  onDisk(bytes: number): void {
    this.#diskBytes = bytes;
  }

  /** The launcher says that every process is dead. */
  onEnded(end: SandboxEnd): void {
    if (this.#state === "running") this.#state = "ended";
    this.#end.resolve(end);
  }

  /** The launcher is gone, and every process with it. */
  onLost(error: Error): void {
    if (this.#state === "running") this.#state = "ended";
    this.#end.reject(error);
  }

  kill(): void {
    if (this.#state === "running") this.#requests.kill(this.id);
  }

  openOutput(path: Uint8Array): number | null {
    return this.#state === "ended" ? loadAddon().openRegular(this.#root, path) : null;
  }

  *listOutput(path: Uint8Array): Generator<DirectoryEntry[]> {
    const { openDirectory, readDirectory, close } = loadAddon();
    const folder = this.#state === "ended" ? openDirectory(this.#root, path) : null;
    if (folder === null) return;
    try {
      for (let piece = readDirectory(folder); piece !== null; piece = readDirectory(folder)) yield piece;
    } finally {
      close(folder);
    }
  }

  destroy(): Promise<void> {
    this.#destroyed ??= this.#destroy();
    return this.#destroyed;
  }

  async #destroy(): Promise<void> {
    this.#state = "destroyed";
    // The last reference to the mount: the launcher has none, and the sandbox's own namespace dies with it.
    loadAddon().close(this.#root);
    // A stream that nobody reads would keep its descriptor for ever.
    for (const stream of [this.stdout, this.stderr]) if (stream.readableFlowing === null) stream.destroy();
    await this.#requests.destroy(this.id);
  }
}

/** Bytes as they come, read only as fast as they are consumed. */
function pipeStream(descriptor: number): Readable {
  return new Socket({ fd: descriptor, readable: true, writable: false });
}
