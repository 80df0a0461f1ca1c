import { Socket } from "node:net";
import type { DatabaseAddress } from "#gateway/store/postgres-driver.ts";

/**
 * Makes a connection for postgres.js, which fails where the other side closes it: a close before the server was ready
 * would have postgres.js connect again at once and without end, and tell nobody.
 */
export function databaseSocket({ host: [host], port: [port], path }: DatabaseAddress): Socket {
  const socket = new DatabaseSocket();
  if (path) return socket.connect(path);
  // TLS asks for the certificate of this host.
  return Object.assign(socket, { host }).connect(port!, host!);
}

class DatabaseSocket extends Socket {
  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // TLS that took it over listens too and passes it on. An error that nobody listens for would end this process.
    const failed = error === null && this.listenerCount("error") > 0;
    super._destroy(failed ? closed() : error, done);
  }
}

function closed(): Error {
  return Object.assign(new Error("the server closed the connection"), { code: "CONNECTION_CLOSED" });
}
