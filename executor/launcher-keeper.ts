import { DsecError } from "#core/errors.ts";
import {
  type Launcher,
  type LauncherOptions,
  type LaunchPlan,
  type Sandbox,
  startLauncher,
} from "#native/index.ts";
import { backoffMs, pause } from "./retry.ts";

const RESTARTS_IN_A_ROW = 5;
/** A launcher that lived this long had started well: its loss begins a new count. */
const LIVED_WELL_MS = 60_000;

/**
 * Keeps a launcher daemon running. When it is lost its sandboxes are lost with it; their attempts fail and are
 * retried, and a new daemon first removes what the old one left.
 */
export class LauncherKeeper {
  readonly #options: LauncherOptions;
  readonly #onLost: (error: Error) => void;
  readonly #closing = new AbortController();
  readonly #broken = Promise.withResolvers<never>();
  #launcher: Promise<Launcher>;
  /** The one that was started last, also where it is lost. */
  #latest: Launcher;

  private constructor(options: LauncherOptions, launcher: Launcher, onLost: (error: Error) => void) {
    this.#options = options;
    this.#onLost = onLost;
    this.#launcher = Promise.resolve(launcher);
    this.#latest = launcher;
    this.#broken.promise.catch(() => {}); // also where nobody waits for it
    this.#watch(launcher, 1);
  }

  static async start(options: LauncherOptions, onLost: (error: Error) => void): Promise<LauncherKeeper> {
    return new LauncherKeeper(options, await startLauncher(options), onLost);
  }

  /** Rejects when the launcher cannot be brought back. */
  get broken(): Promise<never> {
    return this.#broken.promise;
  }

  async launch(plan: LaunchPlan): Promise<Sandbox> {
    return (await this.#launcher).launch(plan);
  }

  /** Those of which something is left on the host. A lost launcher has none. */
  get sandboxes(): Iterable<Sandbox> {
    return this.#latest.sandboxes;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    const launcher = await this.#launcher.catch(() => null);
    await launcher?.close();
  }

  #watch(launcher: Launcher, starts: number): void {
    const startedAtMs = performance.now();
    launcher.lost.then((error) => {
      if (this.#closing.signal.aborted) return;
      this.#onLost(error);
      const livedWell = performance.now() - startedAtMs > LIVED_WELL_MS;
      this.#launcher = this.#restart(livedWell ? 1 : starts + 1);
      this.#launcher.catch((cause) => {
        // Closing gives a restart up, which is no loss.
        if (!this.#closing.signal.aborted) this.#broken.reject(cause);
      });
    });
  }

  async #restart(starts: number): Promise<Launcher> {
    for (let tries = starts; ; tries++) {
      await pause(backoffMs(tries), this.#closing.signal);
      try {
        const launcher = await startLauncher(this.#options);
        this.#latest = launcher;
        this.#watch(launcher, tries);
        return launcher;
      } catch (cause) {
        if (tries >= RESTARTS_IN_A_ROW) {
          throw new DsecError(
            "LAUNCHER_LOST",
            `the launcher over ${this.#options.stateDirectory} was lost and did not start again ` +
              `(${(cause as Error).message}); see dsec doctor`,
            { cause },
          );
        }
      }
    }
  }
}
