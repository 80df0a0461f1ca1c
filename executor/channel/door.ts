import { DsecError } from "#core/errors.ts";
import type { Routes } from "./exchange.ts";
import { type SocketServer, serveSocket } from "./server.ts";

/** Of the socket in the attempt's folder. */
export const SOCKET = "tool.sock";

/** The socket of one sandbox's channel. It listens before there is a sandbox, and a channel to answer what comes. */
export class Door {
  #routes: Routes = closedDoor;
  #server: SocketServer | null = null;
  #closed: Promise<void> | null = null;

  /** Rejects where the folder is not there, or takes no socket. @param directory an attempt's private folder */
  static async make(directory: string): Promise<Door> {
    const door = new Door();
    door.#server = await serveSocket(directory, SOCKET, (exchange) => door.#routes(exchange));
    return door;
  }

  private constructor() {}

  /** From now on these answer; before, everything is refused. */
  open(routes: Routes): void {
    this.#routes = routes;
  }

  /** Ends every connection, and removes the socket. Idempotent. */
  close(): Promise<void> {
    this.#closed ??= this.#server!.close();
    return this.#closed;
  }
}

const closedDoor: Routes = async () => {
  throw new DsecError("CHANNEL_BUSY", "this sandbox has no channel yet");
};
