import { Authority } from "./authority.ts";

/** What a burst of launches finds ready; past it authorities are made as they are asked for. */
const KEPT = 4;
/** A sandbox that is given one still has it for its longest life: authorities are made to last far longer. */
const FRESH_MS = 3_600_000;

/**
 * Authorities made ahead, because making one takes longer than launching a sandbox. Each is taken once: no two sandboxes
 * ever trust the same one.
 */
export class AuthorityStock {
  readonly #ready: { authority: Promise<Authority>; madeMs: number }[] = [];
  #filling = false;

  constructor() {
    this.#fill();
  }

  take(): Promise<Authority> {
    let taken = this.#ready.shift();
    while (taken !== undefined && performance.now() - taken.madeMs > FRESH_MS) taken = this.#ready.shift();
    this.#fill();
    return taken?.authority ?? Authority.create();
  }

  /** One after another and each in a later turn: the launch that took one goes first. */
  #fill(): void {
    if (this.#filling || this.#ready.length >= KEPT) return;
    this.#filling = true;
    setTimeout(async () => {
      const authority = Authority.create();
      // Taken before it failed or after, whoever takes it hears of it.
      authority.catch(() => {});
      this.#ready.push({ authority, madeMs: performance.now() });
      await authority.catch(() => {});
      this.#filling = false;
      this.#fill();
    }, REFILL_AFTER_MS).unref();
  }
}

const REFILL_AFTER_MS = 20;
