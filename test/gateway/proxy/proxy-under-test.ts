/**
 * A gateway with its proxy, a lease that may call, and upstreams that are real servers on 127.0.0.1. Names are
 * answered by a stub resolver, so that no question leaves the machine; what it does not know has no address.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { merkleRoot } from "#core/merkle.ts";
import {
  type AnswerEnd,
  type AnswerError,
  type AnswerHead,
  type AnswerReceipt,
  type CallHead,
  FRAME,
  type ReceiptClaims,
} from "#core/wire/calls.ts";
import type { Lease } from "#core/wire/leases.ts";
import type { PolicyRequest } from "#core/wire/policy.ts";
import { type PinnedUpstream, pinnedUpstream, type Resolve } from "#gateway/node/pinned-fetch.ts";
import { startGateway } from "#gateway/node/server.ts";
import { createSecretCipher } from "#gateway/proxy/secret-cipher.ts";
import {
  type Client,
  ExecutorClient,
  ISSUER,
  openTestGateway,
  type TestGateway,
} from "../gateway-under-test.ts";

export const LOOPBACK = ["127.0.0.0/8", "::1"];
export const PREV = `sha256:${"0".repeat(64)}` as const;

export type TestProxy = Awaited<ReturnType<typeof openTestProxy>>;

/** @param options.over how executors reach the gateway: its app as a function, or its server on a port */
export async function openTestProxy(options: { ca?: string; over?: "app" | "http" } = {}) {
  /** What names resolve to; a test may put a function there that answers anew each time. */
  const names = new Map<string, string[] | (() => string[])>();
  const asked: string[] = [];
  const resolve: Resolve = async (name) => {
    asked.push(name);
    const known = names.get(name);
    const answer = typeof known === "function" ? known() : known;
    if (answer === undefined) throw Object.assign(new Error("no such name"), { code: "ENOTFOUND" });
    return answer;
  };
  const { ca, over = "app" } = options;
  const upstream: PinnedUpstream = pinnedUpstream({ resolve, ...(ca === undefined ? {} : { ca }) });
  const secretCipher = await createSecretCipher(crypto.getRandomValues(new Uint8Array(32)));
  const gateway = await openTestGateway({
    privateNetworks: LOOPBACK,
    // Nobody renews: a lease is to last for as long as a file's tests take.
    leaseTtlMs: 3_600_000,
    parts: { upstream, secretCipher },
  });
  const client = await gateway.client("tasks");
  const direct = await gateway.executor();
  const running =
    over === "http"
      ? await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0, upstreamAuthorities: ca })
      : null;
  const executor =
    running === null
      ? direct
      : new ExecutorClient(
          (path, init) => fetch(running.url + path, init),
          ...([direct.identity, direct.executorId, gateway.clock] as const),
        );
  const servers: Server[] = [];

  return {
    gateway,
    /** Where its server listens, if it has one. */
    url: running?.url ?? ISSUER,
    client,
    executor,
    names,
    asked,
    upstream,

    /** An upstream on 127.0.0.1. */
    async serve(listener: RequestListener, tls?: { key: string; cert: string }) {
      const answer: RequestListener = async (request, response) => {
        try {
          await listener(request, response);
        } catch (error) {
          // A caller that leaves while its request is read is what many of these tests are about.
          if ((error as NodeJS.ErrnoException).code !== "ECONNRESET") throw error;
        }
      };
      const server = tls ? createTlsServer(tls, answer) : createServer(answer);
      servers.push(server);
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      return { server, port, url: `http${tls ? "s" : ""}://127.0.0.1:${port}` };
    },

    /** A running attempt of a task with this policy. */
    async lease(policy: PolicyRequest): Promise<Sandbox> {
      const task = await client.submit({
        policy,
        resources: { cpu_cores: 0.01, memory_mb: 4, pids: 2, disk_mb: 1 },
      });
      const [lease] = await executor.acquire();
      if (lease?.task_id !== task.id) throw new Error(`${task.id} was not the one that was leased`);
      await executor.start(lease);
      return new Sandbox(gateway, client, executor, lease);
    },

    async close() {
      for (const server of servers) server.closeAllConnections();
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
      await running?.close();
      await upstream.close();
      await gateway.close();
    },
  };
}

/** Lets the task reach one server on loopback, over plain HTTP. */
export function reach(port: number, more: Partial<PolicyRequest> = {}, host = "127.0.0.1"): PolicyRequest {
  return { rules: [{ host, port, plain_http: true, allow_private: LOOPBACK }], ...more };
}

export type Answer = {
  head: AnswerHead | undefined;
  body: Buffer;
  end: AnswerEnd | undefined;
  receipt: AnswerReceipt | undefined;
  error: AnswerError | undefined;
  /** When each data frame came, in milliseconds. */
  dataAtMs: number[];
};

/** One attempt as its executor speaks for it. */
export class Sandbox {
  readonly lease: Lease;
  readonly #gateway: TestGateway;
  readonly #client: Client;
  readonly #executor: ExecutorClient;
  #seq = 0;

  constructor(gateway: TestGateway, client: Client, executor: ExecutorClient, lease: Lease) {
    this.#gateway = gateway;
    this.#client = client;
    this.#executor = executor;
    this.lease = lease;
  }

  get path(): string {
    return `/v1/leases/${this.lease.lease_id}/proxy?fence=${this.lease.fence}`;
  }

  head(url: string, call: CallOptions = {}): CallHead {
    const { body = "", head = {}, method = "GET", headers = [] } = call;
    const bytes = Buffer.from(body);
    return {
      seq: ++this.#seq,
      tool: null,
      method,
      url,
      headers,
      content_digest: contentDigest(bytes),
      content_length: bytes.length,
      timeout_ms: 20_000,
      answer: "final",
      prev: PREV,
      call_signature: null,
      ...head,
    };
  }

  send(head: object, body: string | Uint8Array = "", signal?: AbortSignal): Promise<Response> {
    const init = {
      headers: { "content-type": "application/vnd.dsec.call" },
      ...(signal === undefined ? {} : { signal }),
    };
    return this.#executor.send("POST", this.path, packCall(head, body), init);
  }

  /** Makes a call; throws where it is refused before it was made. */
  async call(url: string, call: CallOptions = {}): Promise<Answer> {
    const response = await this.send(this.head(url, call), call.body);
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    return readAnswer(response);
  }

  /** A call that is refused before anything is sent: its error. */
  async refused(url: string, call: CallOptions = {}) {
    const response = await this.send(this.head(url, call), call.body);
    if (response.ok) throw new Error(`the call was made: ${JSON.stringify(await readAnswer(response))}`);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    return { ...error, status: response.status };
  }

  async receipts(): Promise<{ jwts: string[]; claims: ReceiptClaims[] }> {
    const { items } = await this.#client.ok<{ items: { receipt: string }[] }>(
      "GET",
      `/v1/tasks/${this.lease.task_id}/receipts?limit=200`,
    );
    const jwts = items.map(({ receipt }) => receipt);
    return { jwts, claims: jwts.map((jwt) => claimsOf<ReceiptClaims>(jwt)) };
  }

  /** Ends the attempt with evidence over the receipts that are given. */
  async finish(jwts: string[]) {
    const result = await this.#executor.result(this.lease);
    const leaves = jwts.map((jwt) => new TextEncoder().encode(jwt));
    const calls = { count: jwts.length, receipts_root: await merkleRoot(leaves) };
    const evidence = await this.#executor.identity.sendEvidence({
      ...this.#executor.evidence(this.lease, result),
      calls,
    });
    return this.#executor.send("POST", `/v1/leases/${this.lease.lease_id}/complete`, {
      fence: this.lease.fence,
      result,
      evidence,
    });
  }

  get gateway(): TestGateway {
    return this.#gateway;
  }

  get executor(): ExecutorClient {
    return this.#executor;
  }
}

type CallOptions = {
  method?: string;
  headers?: [string, string][];
  body?: string | Uint8Array;
  head?: Partial<CallHead>;
};

export function contentDigest(bytes: Uint8Array | string): string {
  return `sha-256=:${createHash("sha256").update(bytes).digest("base64")}:`;
}

export function digest(bytes: Uint8Array | string): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

export function packCall(head: object, body: string | Uint8Array = ""): Uint8Array {
  const json = Buffer.from(JSON.stringify(head));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(json.length);
  return Buffer.concat([length, json, Buffer.from(body)]);
}

export function claimsOf<T>(jws: string): T {
  return JSON.parse(Buffer.from(jws.split(".")[1]!, "base64url").toString()) as T;
}

/** Reads frames until the last one, or until `enough`. */
export async function readAnswer(
  response: Response,
  enough: (answer: Answer) => boolean = () => false,
): Promise<Answer> {
  const answer: Answer = {
    head: undefined,
    body: Buffer.alloc(0),
    end: undefined,
    receipt: undefined,
    error: undefined,
    dataAtMs: [],
  };
  const parts: Buffer[] = [];
  let rest = Buffer.alloc(0);
  for await (const chunk of response.body! as unknown as AsyncIterable<Uint8Array>) {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 5 && rest.length >= 5 + rest.readUInt32BE(1)) {
      const length = rest.readUInt32BE(1);
      const payload = rest.subarray(5, 5 + length);
      const type = rest[0];
      if (type === FRAME.head) answer.head = JSON.parse(payload.toString()) as AnswerHead;
      else if (type === FRAME.end) answer.end = JSON.parse(payload.toString()) as AnswerEnd;
      else if (type === FRAME.receipt) answer.receipt = JSON.parse(payload.toString()) as AnswerReceipt;
      else if (type === FRAME.error) answer.error = JSON.parse(payload.toString()) as AnswerError;
      else if (type === FRAME.data) {
        parts.push(payload);
        answer.dataAtMs.push(performance.now());
      } else throw new Error(`frame of type ${type}`);
      rest = rest.subarray(5 + length);
    }
    answer.body = Buffer.concat(parts);
    if (enough(answer)) break;
  }
  return answer;
}

export async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

export function header(answer: Answer, name: string): string | undefined {
  return answer.head?.headers.find(([given]) => given.toLowerCase() === name)?.[1];
}
