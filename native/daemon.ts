/** The connection to one launcher daemon: requests go out, events come back, each to the sandbox it names. */
import { type ChildProcess, spawn } from "node:child_process";
import { DsecError, type ErrorCode } from "#core/errors.ts";
import { type Addon, BUILD_DIRECTORY, loadAddon } from "./addon.ts";
import type { Launcher, LaunchPlan, Sandbox, SandboxEnd } from "./index.ts";
import { type Launched, LaunchedSandbox, SANDBOX_DESCRIPTORS } from "./sandbox.ts";

export type DaemonArguments = { stateDirectory: string; uidBase: number; cgroupPrefix: string };

/** What `launcher/server.cc` sends. */
type Event =
  | { event: "ready"; cgroup: "v1" | "v2" }
  | { event: "failed"; code: ErrorCode; message: string }
  | ({ event: "launched"; sequence: number } & Launched)
  | { event: "refused"; sequence: number; code: ErrorCode; message: string }
  | { event: "disk"; id: string; bytes: number }
  | { event: "ended"; id: string; end: SandboxEnd }
  | { event: "destroyed"; id: string; error: string | null };

type Pending<T> = { resolve(value: T): void; reject(error: Error): void };

export class Daemon implements Launcher {
  readonly lost: Promise<Error>;

  readonly #addon: Addon;
  readonly #process: ChildProcess;
  readonly #socket: number;
  readonly #ready = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<void>();
  readonly #exited = Promise.withResolvers<void>();
  readonly #lost = Promise.withResolvers<Error>();
  readonly #launches = new Map<number, Pending<Sandbox> & { id: string; listeners: number }>();
  readonly #sandboxes = new Map<string, LaunchedSandbox>();
  readonly #destroys = new Map<string, Pending<void>>();
  #state: "open" | "closing" | "gone" = "open";
  #failure: DsecError | undefined;
  #sequence = 0;

  /** Resolves when the daemon has cleaned up after its predecessor and takes plans. */
  static async start(given: DaemonArguments): Promise<Daemon> {
    const daemon = new Daemon(given);
    await daemon.#ready.promise;
    return daemon;
  }

  private constructor(given: DaemonArguments) {
    this.#addon = loadAddon();
    this.lost = this.#lost.promise;
    const [ours, theirs] = this.#addon.socketPair();
    this.#socket = ours;
    const { stateDirectory, uidBase, cgroupPrefix } = given;
    this.#process = spawn(
      `${BUILD_DIRECTORY}dsec-launcher`,
      [stateDirectory, String(uidBase), cgroupPrefix, `${BUILD_DIRECTORY}dsec-init`],
      // Its own process group: Ctrl-C reaches Node, which then closes in order.
      { stdio: ["ignore", "ignore", "inherit", theirs], detached: true, env: {} },
    );
    this.#process.on("error", (cause) => {
      this.#failure ??= new DsecError("HOST_UNSUITABLE", `cannot start the launcher: ${cause.message}`, {
        cause,
      });
      this.#exited.resolve();
    });
    this.#process.on("exit", () => this.#exited.resolve());
    this.#addon.close(theirs);
    this.#addon.listen(ours, (text, descriptors) => {
      if (text === null) this.#onGone();
      else this.#onEvent(JSON.parse(text) as Event, descriptors);
    });
  }

  launch(plan: LaunchPlan): Promise<Sandbox> {
    if (this.#state !== "open") return Promise.reject(this.#goneError());
    const sequence = ++this.#sequence;
    const { promise, resolve, reject } = Promise.withResolvers<Sandbox>();
    const listeners = plan.loopbackPorts?.length ?? 0;
    this.#launches.set(sequence, { id: plan.id, listeners, resolve, reject });
    try {
      this.#request({ op: "launch", sequence }, JSON.stringify(plan));
    } catch (cause) {
      this.#launches.delete(sequence);
      const what = `sandbox ${plan.id}: its plan cannot be sent: ${(cause as Error).message}`;
      reject(new DsecError("LAUNCH_FAILED", `${what}; ${MORE_DESCRIPTORS}`, { cause }));
    }
    return promise;
  }

  get sandboxes(): Iterable<Sandbox> {
    return this.#sandboxes.values();
  }

  async close(): Promise<void> {
    if (this.#state === "open") {
      this.#state = "closing";
      this.#rejectPending(this.#goneError());
      this.#request({ op: "close" });
      this.#addon.shutdown(this.#socket);
    }
    await this.#gone.promise;
    await this.#exited.promise;
  }

  /** Throws where there is no descriptor for the attachment. */
  #request(message: object, attachment?: string): void {
    try {
      this.#addon.send(this.#socket, JSON.stringify(message), attachment);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).syscall === "memfd_create") throw error;
      // The daemon died: `listen` is about to say so, and rejects everything that is pending.
    }
  }

  #destroy(id: string): Promise<void> {
    // A daemon that is gone, or on its way out, leaves nothing of a sandbox or has its successor remove it.
    if (this.#state !== "open") return this.#gone.promise;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#destroys.set(id, { resolve, reject });
    this.#request({ op: "destroy", id });
    return promise;
  }

  #onEvent(event: Event, descriptors: number[]): void {
    switch (event.event) {
      case "ready":
        this.#ready.resolve();
        break;
      case "failed":
        this.#failure = new DsecError(event.code, event.message);
        break;
      case "launched":
        this.#onLaunched(event, descriptors);
        break;
      case "refused":
        this.#launches.get(event.sequence)?.reject(new DsecError(event.code, event.message));
        this.#launches.delete(event.sequence);
        break;
      case "disk":
        this.#sandboxes.get(event.id)?.onDisk(event.bytes);
        break;
      case "ended":
        this.#sandboxes.get(event.id)?.onEnded(event.end);
        break;
      case "destroyed":
        this.#onDestroyed(event.id, event.error);
        break;
    }
  }

  #onDestroyed(id: string, error: string | null): void {
    const pending = this.#destroys.get(id);
    this.#sandboxes.delete(id);
    this.#destroys.delete(id);
    if (error === null) pending?.resolve();
    else pending?.reject(new DsecError("INTERNAL", `sandbox ${id} is not swept: ${error}`));
  }

  #onLaunched(event: Launched & { sequence: number }, descriptors: number[]): void {
    const pending = this.#launches.get(event.sequence);
    this.#launches.delete(event.sequence);
    if (pending === undefined) {
      // Closing was asked for in the meantime; the daemon kills it.
      for (const descriptor of descriptors) this.#addon.close(descriptor);
      return;
    }
    const expected = SANDBOX_DESCRIPTORS + pending.listeners;
    if (descriptors.length !== expected) {
      this.#refuseCut(pending, descriptors, expected);
      return;
    }
    const sandbox = new LaunchedSandbox(pending.id, event, descriptors, {
      kill: (id) => this.#request({ op: "kill", id }),
      destroy: (id) => this.#destroy(id),
    });
    this.#sandboxes.set(pending.id, sandbox);
    pending.resolve(sandbox);
  }

  /** The kernel leaves out what this process has no room for (MSG_CTRUNC); without its streams a sandbox is of no use. */
  #refuseCut({ id, reject }: Pending<Sandbox> & { id: string }, came: number[], expected: number): void {
    for (const descriptor of came) this.#addon.close(descriptor);
    const what = `sandbox ${id}: ${came.length} of its ${expected} descriptors came`;
    const error = new DsecError("LAUNCH_FAILED", `${what}; ${MORE_DESCRIPTORS}`);
    // Whoever launched it has nothing to destroy.
    this.#destroy(id).then(
      () => reject(error),
      (cause) => reject(new DsecError("LAUNCH_FAILED", `${error.message}; ${cause.message}`, { cause })),
    );
  }

  #onGone(): void {
    const wasAsked = this.#state === "closing";
    this.#failure ??= this.#goneError();
    this.#state = "gone";
    const error = this.#failure;
    this.#ready.reject(error);
    this.#rejectPending(error);
    for (const sandbox of this.#sandboxes.values()) sandbox.onLost(error);
    this.#sandboxes.clear();
    for (const pending of this.#destroys.values()) pending.resolve();
    this.#destroys.clear();
    if (!wasAsked) this.#lost.resolve(error);
    this.#gone.resolve();
  }

  #rejectPending(error: Error): void {
    for (const pending of this.#launches.values()) pending.reject(error);
    this.#launches.clear();
  }

  #goneError(): DsecError {
    if (this.#failure) return this.#failure;
    const why =
      this.#state === "closing" ? "was asked to close" : "ended without being asked to; start another";
    return new DsecError("LAUNCHER_LOST", `launcher ${this.#process.pid ?? ""} ${why}`);
  }
}

const MORE_DESCRIPTORS = `raise the limit of open files (RLIMIT_NOFILE, ulimit -n) of process ${process.pid}`;
