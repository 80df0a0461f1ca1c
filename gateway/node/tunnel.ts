/**
 * Connections of sandboxes that are passed through, opaque TLS and WebSockets, each over a WebSocket of its own from
 * the executor (docs/tool-calls.md has the messages).
 */
import { once } from "node:events";
import { type ClientRequest, request as httpRequest, type IncomingMessage, type Server } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect, isIP, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { type RawData, type WebSocket, WebSocketServer } from "ws";
import { DsecError, errorBody } from "#core/errors.ts";
import type { LeaseId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { FenceSchema, LeaseIdSchema } from "#core/wire/common.ts";
import type { Hold } from "#core/wire/leases.ts";
import type { ExecutorCaller } from "../auth.ts";
import type { Gateway } from "../environment.ts";
import { validateCallHead } from "../proxy/framing.ts";
import { forwardedResponse } from "../proxy/headers.ts";
import type { OpenTunnel } from "../proxy/proxy.ts";
import { trustedAuthorities } from "./trust.ts";

/** How long an executor may take to say what its tunnel is for. */
const HEAD_TIMEOUT_MS = 10_000;
const CONNECT_TIMEOUT_MS = 10_000;

/** Takes the upgrades of `GET /v1/leases/{id}/tunnel?fence=N`. @param authorities trusted beside Mozilla's, in PEM */
export function serveTunnels(
  server: Server,
  gateway: Gateway,
  authorities?: string | string[],
): { close(): void } {
  const ca = trustedAuthorities(authorities);
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: true,
    perMessageDeflate: false,
    maxPayload: LIMITS.callHeadBytes,
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const lost = () => socket.destroy();
    socket.once("error", lost);
    authorise(gateway, request).then(
      ({ caller, hold }) => {
        socket.off("error", lost);
        sockets.handleUpgrade(request, socket, head, (ws) => {
          serveTunnel(ws, gateway, { caller, hold, ca }).catch((error: unknown) => {
            gateway.log({ level: "error", message: "a tunnel failed", error: String(error) });
            ws.terminate();
          });
        });
      },
      (error: unknown) => refuse(socket, error),
    );
  });
  return {
    close() {
      for (const ws of sockets.clients) ws.terminate();
      sockets.close();
    },
  };
}

async function authorise(
  gateway: Gateway,
  request: IncomingMessage,
): Promise<{ caller: ExecutorCaller; hold: Hold }> {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://gateway");
  const lease = LeaseIdSchema.safeParse(/^\/v1\/leases\/([^/]+)\/tunnel$/.exec(pathname)?.[1]);
  const fence = FenceSchema.safeParse(Number(searchParams.get("fence") ?? Number.NaN));
  if (!lease.success || !fence.success) {
    throw new DsecError("NOT_FOUND", "upgrades are taken at /v1/leases/{id}/tunnel?fence=N alone");
  }
  const caller = await gateway.auth.authenticate(request.headers.authorization, ["executor"]);
  return { caller: caller as ExecutorCaller, hold: { lease_id: lease.data as LeaseId, fence: fence.data } };
}

function refuse(socket: Duplex, error: unknown): void {
  const body = JSON.stringify(errorBody(error, crypto.randomUUID()));
  const status = error instanceof DsecError ? error.status : 500;
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

type Tunnel = { caller: ExecutorCaller; hold: Hold; ca: string[] | undefined };

async function serveTunnel(ws: WebSocket, gateway: Gateway, { caller, hold, ca }: Tunnel): Promise<void> {
  const leaving = new AbortController();
  ws.once("close", () => leaving.abort());
  ws.on("error", () => leaving.abort());
  let tunnel: OpenTunnel;
  try {
    const head = validateCallHead(await firstText(ws));
    tunnel = await gateway.proxy.tunnel(caller.executorId, hold, head, leaving.signal);
  } catch (error) {
    const { code, message } = errorBody(error, "").error;
    say(ws, { type: "error", code, message, partial: false, call_signature: null, receipt: null });
    ws.close(1000);
    return;
  }
  const { call } = tunnel;
  let failed: unknown = null;
  try {
    await pass(ws, tunnel, ca);
    call.complete = true;
  } catch (error) {
    failed = tunnel.signal.aborted ? tunnel.signal.reason : error;
  }
  const { receipt, failure } = await tunnel.end(failed);
  call.spending.close();
  const { bytes_up, bytes_down } = call.spending.spent;
  const call_signature = call.signature.jws;
  if (failure === null && receipt !== null) {
    say(ws, { type: "end", call_signature, receipt, bytes_up, bytes_down });
  } else {
    const why = failure ?? {
      code: "INTERNAL",
      message: `call ${call.head.seq}: its receipt could not be kept`,
    };
    say(ws, { type: "error", ...why, partial: call.status !== null, call_signature, receipt });
  }
  ws.close(1000);
}

/** Connects and passes bytes until both sides have ended, or one of them breaks. */
async function pass(ws: WebSocket, tunnel: OpenTunnel, ca: Tunnel["ca"]): Promise<void> {
  const { call, hop } = tunnel;
  const socket = await connectPinned(tunnel);
  try {
    if (hop.decision.passage === "opaque") {
      call.answered(200);
      say(ws, { type: "head", status: 200, headers: [] });
      await relay(ws, socket, tunnel);
      return;
    }
    const opened = await openWebSocket(socket, tunnel, ca);
    call.sentSecrets.refuseIn(opened.headers);
    call.answered(opened.status);
    const headers = forwardedResponse(opened.headers, { decoded: false });
    say(ws, { type: "head", status: opened.status, headers });
    await relay(ws, opened.stream, tunnel);
  } finally {
    socket.destroy();
  }
}

async function connectPinned({ hop, signal }: OpenTunnel): Promise<Socket> {
  const { target } = hop.decision;
  let failure: unknown;
  for (const host of hop.addresses) {
    const socket = connect({ host, port: target.port, noDelay: true, allowHalfOpen: true });
    const timer = setTimeout(() => socket.destroy(new Error("ETIMEDOUT")), CONNECT_TIMEOUT_MS);
    try {
      await once(socket, "connect", { signal });
      return socket;
    } catch (error) {
      socket.destroy();
      if (signal.aborted) throw signal.reason;
      failure = error;
    } finally {
      clearTimeout(timer);
    }
  }
  const code = (failure as NodeJS.ErrnoException | undefined)?.code ?? "no address";
  throw new DsecError("UPSTREAM_UNREACHABLE", `${target.host.text}:${target.port}: no connection (${code})`);
}

type Opened = { status: number; headers: [string, string][]; stream: Duplex | IncomingMessage };

/** The opening handshake of RFC 6455 section 4.1 over the pinned connection; any other answer is passed on as it is. */
async function openWebSocket(
  socket: Socket,
  { call, hop, headers, signal }: OpenTunnel,
  ca: Tunnel["ca"],
): Promise<Opened> {
  const { scheme, host, port, path, query, url } = hop.decision.target;
  const secured =
    scheme === "https"
      ? connectTls({
          socket,
          ALPNProtocols: ["http/1.1"],
          ...(isIP(host.text.replaceAll(/[[\]]/g, "")) ? {} : { servername: host.text }),
          ...(ca === undefined ? {} : { ca }),
        })
      : socket;
  const send = scheme === "https" ? httpsRequest : httpRequest;
  const fields = [
    ["Host", new URL(url).host],
    ["Connection", "Upgrade"],
    ["Upgrade", "websocket"],
    ...headers,
  ];
  const request: ClientRequest = send({
    createConnection: () => secured,
    method: call.head.method,
    host: host.text,
    port,
    path: `${path}${query}`,
    headers: fields.flat(),
    setHost: false,
    maxHeaderSize: LIMITS.callHeaderBytes,
    signal,
  });
  request.maxHeadersCount = 0; // beyond a number Node would drop fields without a word; their size is bounded
  return new Promise<Opened>((resolve, reject) => {
    const answered = (response: IncomingMessage, stream: Opened["stream"]) => {
      const raw = response.rawHeaders;
      const pairs = raw.flatMap((name, i): [string, string][] =>
        i % 2 === 0 ? [[name, raw[i + 1] ?? ""]] : [],
      );
      resolve({ status: response.statusCode!, headers: pairs, stream });
    };
    request.once("upgrade", (response, stream, first) => {
      if (first.length > 0) stream.unshift(first);
      answered(response, stream);
    });
    request.once("response", (response) => answered(response, response));
    request.once("error", (error: NodeJS.ErrnoException) => {
      const message = `${host.text}:${port}: the WebSocket did not open (${error.code ?? error.name})`;
      reject(new DsecError("UPSTREAM_FAILED", message, { cause: error }));
    });
    request.end();
  });
}

/**
 * Bytes both ways; whoever writes faster than the other reads is made to wait. `{"type": "eof"}` says that its sender
 * writes no more, as a FIN does.
 */
function relay(ws: WebSocket, stream: Duplex | IncomingMessage, { call, signal }: OpenTunnel): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => finish(signal.reason);
    let over = false;
    const finish = (error: unknown) => {
      if (over) return;
      over = true;
      signal.removeEventListener("abort", stop);
      stream.destroy();
      if (error === null) resolve();
      else reject(error);
    };
    const spend = (direction: "bytes_up" | "bytes_down", bytes: number): boolean => {
      try {
        call.spending.move(direction, bytes);
        return true;
      } catch (error) {
        finish(error);
        return false;
      }
    };
    signal.addEventListener("abort", stop);
    if (signal.aborted) return stop();

    stream.on("data", (piece: Buffer) => {
      if (!spend("bytes_down", piece.length)) return;
      let passed: Uint8Array;
      try {
        passed = call.sentSecrets.pass(piece);
      } catch (error) {
        return finish(error);
      }
      stream.pause();
      ws.send(passed, { binary: true }, () => stream.resume());
    });
    stream.once("end", () => {
      const rest = call.sentSecrets.pass(null);
      if (rest.length > 0) ws.send(rest, { binary: true });
      say(ws, { type: "eof" });
      // Nothing can be written to an upstream that has answered without upgrading.
      if (!("write" in stream) || stream.writableEnded) finish(null);
      else stream.once("finish", () => finish(null));
    });
    stream.once("error", (cause: NodeJS.ErrnoException) => {
      const message = `the connection broke off (${cause.code ?? cause.name})`;
      finish(new DsecError("UPSTREAM_FAILED", message, { cause }));
    });
    stream.once("close", () => finish(null));

    ws.on("message", (data: RawData, binary: boolean) => {
      if (!("write" in stream) || over) return;
      if (!binary) return void stream.end();
      const piece = Buffer.isBuffer(data)
        ? data
        : Buffer.concat(Array.isArray(data) ? data : [Buffer.from(data)]);
      if (!spend("bytes_up", piece.length)) return;
      if (stream.write(piece)) return;
      ws.pause();
      stream.once("drain", () => ws.resume());
    });
    ws.resume();
  });
}

async function firstText(ws: WebSocket): Promise<string> {
  const [data, binary] = (await once(ws, "message", { signal: AbortSignal.timeout(HEAD_TIMEOUT_MS) }).catch(
    (cause: unknown) => {
      throw new DsecError("INVALID_REQUEST", "the tunnel's first message did not come", { cause });
    },
  )) as [RawData, boolean];
  // What follows is for the upstream, which is not connected yet.
  ws.pause();
  if (binary)
    throw new DsecError("INVALID_REQUEST", "the tunnel's first message must be text: the call's head");
  return data.toString();
}

function say(ws: WebSocket, message: object): void {
  if (ws.readyState === ws.OPEN) ws.send(JSON.stringify(message));
}
