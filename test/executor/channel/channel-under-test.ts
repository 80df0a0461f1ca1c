/**
 * Channels of real leases over a real gateway with its proxy: what a test sends to a socket goes the whole way to
 * upstreams on 127.0.0.1. There are no sandboxes here; the test is the agent.
 */
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { decodeJwt } from "jose";
import type { Digest } from "#core/ids.ts";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import { fromWire, toWire } from "#core/wire/common.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";
import type { Channel, ChannelRecord } from "#executor/channel/channel.ts";
import { Channels } from "#executor/channel/channels.ts";
import { Door } from "#executor/channel/door.ts";
import { AgentServices } from "#executor/channel/services.ts";
import { buildEvidence, describeHost } from "#executor/evidence.ts";
import { GatewayClient } from "#executor/gateway-client.ts";
import { type Identity, openIdentity } from "#executor/identity.ts";
import { createSqliteMemoryStore } from "#executor/memory/sqlite-store.ts";
import type { MemoryStore } from "#executor/memory/store.ts";
import { emptyResult } from "#executor/run.ts";
import type { ExecToolParts } from "#executor/tools/exec-tool.ts";
import { Collector } from "#executor/trace/collector.ts";
import { CAPACITY, ISSUER } from "#test/gateway/gateway-under-test.ts";
import { openTestProxy, type TestProxy } from "#test/gateway/proxy/proxy-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";
import { signEvidence } from "#trace/attestation/evidence.ts";
import type { TraceEvent } from "#trace/events/event.ts";

const IMAGE_DIGEST: Digest = `sha256:${"0".repeat(64)}`;

export class ChannelRig implements AsyncDisposable {
  readonly proxy: TestProxy;
  readonly directory: string;
  readonly services: AgentServices;
  readonly gateway: GatewayClient;
  readonly channels: Channels;
  /** There are no sandboxes here, but for what a test puts in their place. */
  readonly exec: ExecToolParts;
  readonly #collector: Collector;
  readonly #executorId: string;
  readonly #identity: Identity;
  readonly #opened: OpenChannel[] = [];
  /** Sees each request before the gateway does. */
  onRequest: (request: Request) => void = () => {};
  /** What happens to the gateway's answer on its way; a test may put a failure there. */
  onAnswer: (request: Request, answer: Response) => Response | Promise<Response> = (_request, answer) =>
    answer;

  /** @param options.redisUrl keeps memory there */
  static async open({ redisUrl }: { redisUrl?: string } = {}): Promise<ChannelRig> {
    const proxy = await openTestProxy();
    const directory = await mkdtemp(join(tmpdir(), "dsec-channel-"));
    const services = await AgentServices.open({ dataDirectory: directory, redisUrl });
    const identity = await openIdentity(directory);
    const { secret } = await proxy.gateway.client("executors:enrol");
    let rig: ChannelRig | null = null;
    const fetch = async (request: Request) => {
      proxy.gateway.clock.nowMs = Date.now();
      rig?.onRequest(request);
      const answer = await proxy.gateway.app.fetch(request);
      return rig === null ? answer : rig.onAnswer(request, answer);
    };
    const gateway = new GatewayClient({ gatewayUrl: ISSUER, fetch, identity });
    const executorId = await gateway.enrol(secret, {
      public_key: identity.publicKey,
      capacity: toWire(fromWire(CAPACITY)),
      images: [],
      build: "0.1.0+test",
      host: describeHost(),
    });
    const collector = await Collector.start();
    rig = new ChannelRig({ proxy, directory, services, gateway, collector, executorId, identity });
    return rig;
  }

  private constructor(parts: {
    proxy: TestProxy;
    directory: string;
    services: AgentServices;
    gateway: GatewayClient;
    collector: Collector;
    executorId: string;
    identity: Identity;
  }) {
    this.proxy = parts.proxy;
    this.directory = parts.directory;
    this.services = parts.services;
    this.gateway = parts.gateway;
    this.#executorId = parts.executorId;
    this.#identity = parts.identity;
    const { services, gateway, collector } = parts;
    const tracesDirectory = join(this.directory, "traces");
    const noSandboxes = () => Promise.reject(new Error("there are no sandboxes in this test"));
    this.exec = { launcher: { launch: noSandboxes }, findImage: noSandboxes };
    this.#collector = collector;
    this.channels = new Channels({ services, gateway, exec: this.exec, collector, tracesDirectory });
  }

  /** Past the memory service: what it reads and writes is recorded nowhere. */
  get store(): MemoryStore {
    return createSqliteMemoryStore(this.services.database);
  }

  /** A running attempt of a task, and its open channel. */
  async channel(spec: Partial<TaskRequest> = {}): Promise<OpenChannel> {
    const lease = await this.lease(spec);
    const directory = join(this.directory, lease.lease_id);
    await mkdir(directory);
    const channel = await this.channels.open(lease, directory, await Door.make(directory));
    const opened = new OpenChannel(this, lease, directory, channel);
    this.#opened.push(opened);
    return opened;
  }

  /** A running attempt of a task that has no channel yet. */
  async lease(spec: Partial<TaskRequest> = {}): Promise<Lease> {
    const task = await this.proxy.client.submit({
      retries: 0,
      resources: { cpu_cores: 0.01, memory_mb: 4, pids: 2, disk_mb: 1 },
      ...spec,
    });
    const { leases } = await this.gateway.acquire(
      { free: CAPACITY, max_leases: 1, wait_ms: 0 },
      AbortSignal.timeout(10_000),
    );
    const [lease] = leases;
    if (lease?.task_id !== task.id) throw new Error(`${task.id} was not the one that was leased`);
    const hold = { lease_id: lease.lease_id, fence: lease.fence };
    await this.gateway.sendEvents([{ type: "running", ...hold }], AbortSignal.timeout(10_000));
    return lease;
  }

  /** Delivers an attempt that ended with this record; its claims as attested. */
  async deliver({ lease }: OpenChannel, channel: ChannelRecord): Promise<AttestationClaims> {
    const signal = AbortSignal.timeout(10_000);
    const hold = { lease_id: lease.lease_id, fence: lease.fence };
    const { digest, path } = channel.trace;
    await this.gateway.putBlob(hold, digest, new Blob([await readFile(path)]), signal);
    const result = emptyResult({
      reason: "launch_failed",
      exit_code: null,
      signal: null,
      message: "no sandbox",
    });
    const facts = { lease, executorId: this.#executorId, host: describeHost(), imageDigest: IMAGE_DIGEST };
    const evidence = buildEvidence({ ...facts, lived: null, channel, result });
    const signed = await signEvidence(evidence, this.#identity.sign);
    await this.gateway.complete(lease.lease_id, { fence: lease.fence, result, evidence: signed }, signal);
    const { items } = await this.proxy.client.ok<{ items: { jwt: string }[] }>(
      "GET",
      `/v1/tasks/${lease.task_id}/attestations`,
    );
    return decodeJwt(items[0]!.jwt) as unknown as AttestationClaims;
  }

  /** Gives an attempt back that nobody delivers, so that its place is free. */
  async giveBack({ lease }: { lease: Lease }): Promise<void> {
    await this.proxy.client.ok("POST", `/v1/tasks/${lease.task_id}/cancel`);
    const hold = { lease_id: lease.lease_id, fence: lease.fence };
    await this.gateway.release(hold, AbortSignal.timeout(10_000));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const opened of this.#opened) await this.channels.end(opened.channel);
    await this.services.close();
    await this.#collector.close();
    await this.proxy.close();
    await rm(this.directory, { recursive: true, force: true });
  }
}

export type Answered = {
  status: number;
  headers: { [name: string]: string | string[] | undefined };
  body: Buffer;
  json: Members;
};
type Members = { [member: string]: unknown } & { error?: { code: string; message: string } };

export class OpenChannel {
  readonly rig: ChannelRig;
  readonly lease: Lease;
  readonly directory: string;
  readonly channel: Channel;

  constructor(rig: ChannelRig, lease: Lease, directory: string, channel: Channel) {
    this.rig = rig;
    this.lease = lease;
    this.directory = directory;
    this.channel = channel;
  }

  get socketPath(): string {
    return this.channel.socketPath;
  }

  /** One request as an agent sends it. */
  send(
    method: string,
    path: string,
    body?: unknown,
    options: { headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<Answered> {
    const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
    const headers = {
      ...(text === undefined ? {} : { "content-type": "application/json" }),
      ...options.headers,
    };
    const { signal } = options;
    return new Promise((resolve, reject) => {
      const request = httpRequest(
        { socketPath: this.socketPath, method, path, headers, ...(signal ? { signal } : {}) },
        async (response) => {
          try {
            const bytes = await buffer(response);
            const json = bytes.length === 0 ? {} : (JSON.parse(bytes.toString("utf8")) as Members);
            resolve({ status: response.statusCode!, headers: response.headers, body: bytes, json });
          } catch (error) {
            reject(error);
          }
        },
      );
      request.on("error", reject);
      request.end(text);
    });
  }

  tool(name: string, input: object = {}, options?: { signal?: AbortSignal }): Promise<Answered> {
    return this.send("POST", `/v1/tools/${name}`, { input }, options);
  }

  /** Bytes as they are, and everything that comes back until the other side closes. */
  async raw(bytes: string | Uint8Array): Promise<string> {
    const socket = this.connect();
    socket.on("error", () => {}); // a reset is an answer too
    socket.write(bytes);
    const parts: Buffer[] = [];
    socket.on("data", (part) => parts.push(part));
    await new Promise<void>((resolve) => socket.once("close", () => resolve()));
    return Buffer.concat(parts).toString("latin1");
  }

  connect(): Socket {
    return connect(this.socketPath);
  }

  /** Ends the sandbox's life: what its evidence says, and the events of the trace that it names. */
  async close(): Promise<{ record: ChannelRecord; events: TraceEvent[] }> {
    const record = await this.channel.close(AbortSignal.timeout(30_000));
    await this.rig.channels.end(this.channel);
    const { count, chain_head, events } = await readTrace(await readFile(record.trace.path));
    if (chain_head !== record.trace.chain_head || count !== record.trace.count)
      throw new Error("the trace is not the recorded one");
    return { record, events };
  }
}
