import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { Hold } from "#core/wire/leases.ts";
import { AttemptFolder } from "./attempt-folder.ts";
import { Door } from "./channel/door.ts";
import type { Authority } from "./egress/authority.ts";
import { layTrust } from "./egress/trust.ts";

/**
 * Where an attempt runs on this host, as far as its lease does not matter: its private folder, and in it the socket of its
 * channel and the certificate that its sandbox trusts. To make it takes the file system four files and folders, which are
 * half a millisecond each where it keeps a journal, and the processor a pair of keys, so it is made ahead (`Places`).
 */
export class Place {
  readonly folder: AttemptFolder;
  readonly door: Door;
  readonly authority: Authority;

  /** @param directory private, on the file system of the attempts' folders */
  static async make(directory: string): Promise<Place> {
    const folder = await AttemptFolder.make(join(directory, randomUUID()));
    try {
      const authority = await layTrust(folder.path);
      return new Place(folder, await Door.make(folder.path), authority);
    } catch (error) {
      await folder.remove();
      throw error;
    }
  }

  private constructor(folder: AttemptFolder, door: Door, authority: Authority) {
    this.folder = folder;
    this.door = door;
    this.authority = authority;
  }

  /** It is the attempt's under the lease from now on, and nobody else's. */
  giveTo(attemptsDirectory: string, hold: Hold): Place {
    return new Place(this.folder.giveTo(attemptsDirectory, hold), this.door, this.authority);
  }

  /** Nothing of it stays. */
  async remove(): Promise<void> {
    await this.door.close();
    await this.folder.remove();
  }
}
