/**
 * Closing a connection with bytes unread resets it (RFC 9112 section 9.6), and a client that first sends the whole of its
 * request would never see why it was refused: it is given a moment to say the rest and to read.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

const LINGER_MS = 1_000;

/**
 * Ends an answer of which all was written, once what nobody wants of its request has ended, broken off or fallen silent,
 * because the end of a last answer closes the connection. The server's own time for a request bounds the wait.
 */
export function endOnceRead(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete || request.destroyed) {
    response.end();
    return;
  }
  const done = () => {
    clearTimeout(silence);
    request.off("data", heard).off("close", done);
    response.end();
  };
  const silence = setTimeout(done, LINGER_MS);
  const heard = () => silence.refresh();
  request.on("data", heard).once("close", done).resume();
}

/** Closes a connection that has left HTTP, or was none. */
export function closeGently(socket: Duplex): void {
  socket.end();
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}
