/** What happens behind a CONNECT: the first bytes decide, and a name that was not judged goes nowhere. */
import { once } from "node:events";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { type Allowed, type Decision, deny } from "#core/policy/decide.ts";
import { decideTlsName } from "#core/policy/request.ts";
import { closeGently } from "../lingering-close.ts";
import type { Authority } from "./authority.ts";
import { type FirstBytes, readFirstBytes } from "./client-hello.ts";

export type Opening =
  /** The client spoke TLS and takes us for the host: HTTP goes on over `connection`. */
  | { kind: "https"; connection: TLSSocket }
  /** The client spoke at once, and not TLS. */
  | { kind: "http"; connection: Duplex }
  | { kind: "refused"; decision: Decision };

/** Ends the TLS of a tunnel that is to be opened. Rejects where the client leaves or takes too long. */
export async function openTunnel(
  tunnel: Allowed,
  socket: Duplex,
  head: Buffer,
  authority: Authority,
): Promise<Opening> {
  return withinHandshakeTime(socket, async () => {
    const { bytes, first } = await firstBytes(socket, head);
    if (first.kind === "not_tls") {
      socket.unshift(bytes);
      return { kind: "http", connection: socket };
    }
    const decision = judge(tunnel, first);
    if (!decision.allowed) return refused(decision, socket);
    const secureContext = authority.contextFor(tunnel.target.host);
    socket.unshift(bytes);
    const connection = new TLSSocket(socket as Socket, {
      isServer: true,
      secureContext,
      ALPNProtocols: ["http/1.1"],
    });
    connection.on("error", () => connection.destroy());
    // A client that does not trust us, or leaves, ends it here.
    await Promise.race([once(connection, "secure"), closedEarly(connection)]);
    return { kind: "https", connection };
  });
}

/**
 * Joins a tunnel that must not be opened with its connection, once its TLS has named the host that was judged: that name
 * is all that can be seen of it.
 */
export async function joinOpaque(
  tunnel: Allowed,
  socket: Duplex,
  head: Buffer,
  connection: Duplex,
): Promise<{ kind: "joined" } | { kind: "refused"; decision: Decision }> {
  return withinHandshakeTime(socket, async () => {
    const { bytes, first } = await firstBytes(socket, head);
    const decision = judge(tunnel, first);
    if (!decision.allowed) return refused(decision, socket);
    connection.write(bytes);
    join(socket, connection);
    return { kind: "joined" };
  });
}

/**
 * Bytes both ways, each no faster than the other side takes them. One side's end is passed on. A client that has ended
 * and then takes no more is done, as curl is once it has its answer; one that only breaks off ends the connection too. A
 * reset may be either: the upstream's last words that meet a closed socket make one as well, before its end was read.
 */
export function join(socket: Duplex, connection: Duplex): void {
  (socket as Socket).setTimeout(LIMITS.egressIdleMs, () => socket.destroy());
  socket.pipe(connection);
  connection.pipe(socket);
  connection.on("error", () => socket.destroy());
  connection.once("close", () => {
    if (!connection.readableEnded) socket.destroy();
  });
  let isReset = false;
  socket.once("error", ({ code }: NodeJS.ErrnoException) => {
    isReset = code === "ECONNRESET" || code === "EPIPE";
  });
  socket.once("close", () => {
    if (socket.readableEnded) endWithin(LIMITS.callGraceMs, connection);
    else if (isReset) {
      if (connection.readableEnded) connection.end();
      else connection.once("end", () => connection.end());
      endWithin(RESET_GRACE_MS, connection);
    } else connection.destroy();
  });
}

/** An upstream that has not ended by itself so long after its client was reset has lost it. */
const RESET_GRACE_MS = 1_000;

function endWithin(ms: number, connection: Duplex): void {
  connection.resume();
  const timer = setTimeout(() => connection.destroy(), ms);
  connection.once("close", () => clearTimeout(timer));
}

function judge(tunnel: Allowed, first: FirstBytes): Decision {
  if (first.kind === "client_hello") return decideTlsName(tunnel, first.serverName);
  const { method, target } = tunnel;
  const why = first.kind === "malformed" ? first.why : "it must begin with TLS";
  const message = `tunnel to ${target.host.text}:${target.port}: ${why}`;
  return deny("TLS_NAME_MISMATCH", message, method, target);
}

function refused(decision: Decision, socket: Duplex): { kind: "refused"; decision: Decision } {
  // The tunnel stands, so a status could not be read any more: the client gets the alert for a name we are not.
  socket.write(ALERT_UNRECOGNIZED_NAME);
  closeGently(socket);
  return { kind: "refused", decision };
}

/** A record with the fatal alert unrecognized_name(112) (RFC 8446 section 6). */
const ALERT_UNRECOGNIZED_NAME = Buffer.from([21, 3, 3, 0, 2, 2, 112]);

async function firstBytes(socket: Duplex, head: Buffer): Promise<{ bytes: Buffer; first: FirstBytes }> {
  let bytes = head;
  for (;;) {
    const first = readFirstBytes(bytes);
    if (first.kind !== "incomplete") return { bytes, first };
    bytes = Buffer.concat([bytes, await nextPart(socket)]);
  }
}

async function nextPart(socket: Duplex): Promise<Buffer> {
  for (;;) {
    const part: Buffer | null = socket.read();
    if (part !== null) return part;
    const waiting = new AbortController();
    const { signal } = waiting;
    const events = [once(socket, "readable", { signal }), once(socket, "close", { signal })];
    try {
      await Promise.race(events);
    } finally {
      waiting.abort();
      await Promise.allSettled(events);
    }
    if (socket.readableEnded || socket.destroyed) throw left();
  }
}

async function closedEarly(connection: Duplex): Promise<never> {
  await new Promise((resolve) => connection.once("close", resolve));
  throw left();
}

async function withinHandshakeTime<T>(socket: Duplex, work: () => Promise<T>): Promise<T> {
  const timer = setTimeout(() => socket.destroy(), LIMITS.egressHandshakeMs);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
  }
}

function left(): DsecError {
  return new DsecError("CALL_CANCELLED", "the client left before the tunnel was opened");
}
