/** A real sandbox with its loopback proxy, real upstreams on 127.0.0.1, and a call port that fetches from them. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { type AddressInfo, connect, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { DsecError } from "#core/errors.ts";
import { compilePolicy, loadPolicy } from "#core/policy/compile.ts";
import { type Denied, decide } from "#core/policy/decide.ts";
import { canonicalHost } from "#core/policy/host.ts";
import type { Target } from "#core/policy/url.ts";
import { Authority } from "#executor/egress/authority.ts";
import type {
  CallPort,
  EgressAnswer,
  EgressCall,
  EgressWebSocket,
  Fields,
} from "#executor/egress/call-port.ts";
import {
  EGRESS_ENVIRONMENT,
  PROXY_PORT,
  TRUST_PATH,
  trustedCertificates,
} from "#executor/egress/environment.ts";
import { fieldsOf } from "#executor/egress/fields.ts";
import { LoopbackProxy } from "#executor/egress/loopback-proxy.ts";
import { bytesOf, plan, type TestLauncher, testLauncher } from "../../native/sandboxes.ts";

export type Ended = { exitCode: number | null; stdout: string; stderr: string };

/** Upstreams are known by these names; no other can be resolved. */
export type Upstreams = { plain: number; secure: number };

/**
 * Stands where the gateway will: it judges again, resolves by its own table, and really connects. What it was asked for
 * is kept for the tests to look at.
 */
export class DirectCalls implements CallPort {
  readonly calls: EgressCall[] = [];
  readonly bodies: Buffer[] = [];
  readonly tunnels: Target[] = [];
  /** What the tunnels lead to. */
  readonly connections: Duplex[] = [];
  readonly denials: Denied[] = [];
  /** Aborted because the client left. */
  cancelled = 0;
  policyValue: unknown = {};
  readonly #authority: Authority;

  constructor(authority: Authority) {
    this.#authority = authority;
  }

  policy() {
    return compilePolicy(loadPolicy(this.policyValue));
  }

  async renewedPolicy() {
    return this.policy();
  }

  async call(call: EgressCall, signal: AbortSignal): Promise<EgressAnswer> {
    const response = await this.#request(call, signal);
    return answerOf(response);
  }

  async openWebSocket(call: EgressCall, signal: AbortSignal): Promise<EgressAnswer | EgressWebSocket> {
    const upgrade: Fields = [
      ["Connection", "Upgrade"],
      ["Upgrade", "websocket"],
    ];
    const request = this.#send({ ...call, headers: [...call.headers, ...upgrade] }, signal);
    request.end();
    return new Promise((resolve, reject) => {
      request.once("error", reject);
      request.once("response", (response) => resolve(answerOf(response)));
      request.once("upgrade", (response, connection, head) => {
        if (head.length > 0) connection.unshift(head);
        resolve({ kind: "websocket", headers: fieldsOf(response.rawHeaders), connection });
      });
    });
  }

  async openTunnel(target: Target, _signal: AbortSignal): Promise<Duplex> {
    const decision = decide(this.policy(), { method: "CONNECT", url: target.url });
    if (!decision.allowed) throw new DsecError(decision.code, decision.message);
    this.tunnels.push(target);
    const socket = connect(target.port, addressOf(target.host.text));
    await once(socket, "connect");
    this.connections.push(socket);
    return socket;
  }

  refused(denied: Denied): void {
    this.denials.push(denied);
  }

  async #request(call: EgressCall, signal: AbortSignal): Promise<http.IncomingMessage> {
    const decision = decide(this.policy(), call);
    if (!decision.allowed) throw new DsecError(decision.code, decision.message);
    const parts: Buffer[] = [];
    for await (const part of call.body ?? []) parts.push(Buffer.from(part));
    this.bodies.push(Buffer.concat(parts));
    const request = this.#send(call, signal);
    request.end(this.bodies.at(-1));
    signal.addEventListener("abort", () => this.cancelled++, { once: true });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    return response;
  }

  #send(call: EgressCall, signal: AbortSignal): http.ClientRequest {
    this.calls.push(call);
    const { protocol, hostname, port, pathname, search, host } = new URL(call.url);
    const options = {
      method: call.method,
      path: pathname + search,
      host: addressOf(hostname),
      port: port || (protocol === "https:" ? 443 : 80),
      headers: ["Host", host, ...call.headers.flat()],
      signal,
      agent: false,
    } as const;
    if (protocol === "http:") return http.request(options);
    return https.request({ ...options, ca: this.#authority.certificate, servername: hostname });
  }
}

/** The whole name service of these tests. */
function addressOf(host: string): string {
  if (host === "127.0.0.1" || host.endsWith(".test")) return "127.0.0.1";
  throw new Error(`the tests contact nothing but their own servers, and not ${host}`);
}

function answerOf(response: http.IncomingMessage): EgressAnswer {
  return {
    kind: "answer",
    status: response.statusCode!,
    headers: fieldsOf(response.rawHeaders),
    body: response,
  };
}

export class EgressUnderTest {
  readonly host: TestLauncher;
  /** Of the upstreams; no sandbox trusts it. */
  readonly upstreamAuthority: Authority;
  readonly folder = mkdtempSync(join(tmpdir(), "dsec-egress-"));
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();

  static async start(): Promise<EgressUnderTest> {
    return new EgressUnderTest(await testLauncher(), new Authority());
  }

  private constructor(host: TestLauncher, upstreamAuthority: Authority) {
    this.host = host;
    this.upstreamAuthority = upstreamAuthority;
  }

  /** Listens on 127.0.0.1 at a free port. */
  async listen(server: Server): Promise<number> {
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    this.#servers.push(server);
    return (server.address() as AddressInfo).port;
  }

  plain(handler: http.RequestListener): http.Server {
    return http.createServer(handler);
  }

  /** Shows a certificate of the upstreams' authority for whatever name it is asked by. */
  secure(handler: http.RequestListener): https.Server {
    return https.createServer({ ...this.#names(), ALPNProtocols: ["http/1.1"] }, handler);
  }

  #names() {
    return {
      SNICallback: (name: string, done: (error: Error | null, context?: never) => void) => {
        done(null, this.upstreamAuthority.contextFor(canonicalHost(name)) as never);
      },
    };
  }

  /** A proxy on a port of this host instead of a sandbox's, for clients that are the test itself. */
  async proxy(
    policy: unknown,
  ): Promise<{ calls: DirectCalls; proxy: LoopbackProxy; authority: Authority; port: number }> {
    const authority = new Authority();
    const calls = new DirectCalls(this.upstreamAuthority);
    calls.policyValue = policy;
    const proxy = await LoopbackProxy.start({ host: "127.0.0.1", port: 0 }, authority, calls);
    return { calls, proxy, authority, port: proxy.port };
  }

  /** Runs a command in a sandbox whose only network is its proxy. */
  async run(
    argv: string[],
    policy: unknown,
    files: Record<string, string> = {},
  ): Promise<Ended & { calls: DirectCalls }> {
    const authority = new Authority();
    const calls = new DirectCalls(this.upstreamAuthority);
    calls.policyValue = policy;
    const trust = join(
      this.folder,
      `${createHash("sha256").update(authority.certificate).digest("hex")}.pem`,
    );
    writeFileSync(trust, trustedCertificates(authority, loadPolicy(policy)), { mode: 0o444 });
    const mounts = [{ source: trust, target: TRUST_PATH }];
    for (const [target, content] of Object.entries(files)) {
      const source = join(this.folder, target.replaceAll("/", "_"));
      writeFileSync(source, content, { mode: 0o444 });
      mounts.push({ source, target });
    }
    const launchPlan = plan(argv, { mounts, loopbackPorts: [PROXY_PORT] });
    const sandbox = await this.host.launcher.launch({
      ...launchPlan,
      env: { ...launchPlan.env, ...EGRESS_ENVIRONMENT },
    });
    const proxy = await LoopbackProxy.start({ fd: sandbox.listeners[0]! }, authority, calls);
    try {
      const [stdout, stderr, end] = await Promise.all([
        bytesOf(sandbox.stdout),
        bytesOf(sandbox.stderr),
        sandbox.ended,
      ]);
      return { exitCode: end.exitCode, stdout: stdout.toString(), stderr: stderr.toString(), calls };
    } finally {
      await proxy.close();
      await sandbox.destroy();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
    await this.host[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true });
  }
}
