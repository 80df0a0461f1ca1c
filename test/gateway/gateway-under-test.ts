/** A whole gateway without a port: real store on PGlite, blobs on disk, WebCrypto keys, and a clock of its own. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import { newId } from "#core/ids.ts";
import { jsonDigest, sha256 } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Evidence } from "#core/wire/attestations.ts";
import type { WireResources } from "#core/wire/common.ts";
import type { Scope } from "#core/wire/keys.ts";
import type { Lease } from "#core/wire/leases.ts";
import { DEFAULT_RESOURCES, type Result, type Task, type TaskRequest } from "#core/wire/tasks.ts";
import { createGateway } from "#gateway/app.ts";
import { mintKey } from "#gateway/auth.ts";
import { openDiskBlobs } from "#gateway/node/disk-blobs.ts";
import { openPglite } from "#gateway/node/pglite.ts";
import type { GatewayPorts } from "#gateway/ports.ts";
import { createKeyRing } from "#gateway/signing/key-ring.ts";
import { generateWebCryptoSigner } from "#gateway/signing/webcrypto-signer.ts";
import { createStore } from "#gateway/store/store.ts";
import { TestExecutor } from "#test/support/attestation.ts";
import { ISOLATION } from "#test/support/isolation.ts";
import { signEnrolment } from "#trace/attestation/enrolment.ts";

export const ISSUER = "https://dsec.example";
export const CAPACITY: WireResources = {
  cpu_cores: 8,
  memory_mb: 16_384,
  gpu_memory_mb: 0,
  disk_iops: 1000,
  network_mbps: 100,
  pids: 4096,
  disk_mb: 100_000,
};

export type TestGateway = Awaited<ReturnType<typeof openTestGateway>>;

export async function openTestGateway(
  options: {
    rateRequestsPerS?: number;
    rateBurst?: number;
    privateNetworks?: string[];
    /** LIMITS.leaseTtlMs unless given */
    leaseTtlMs?: number;
    parts?: Pick<GatewayPorts, "upstream" | "secretCipher">;
  } = {},
) {
  const { sql, wake } = await openPglite(null);
  const directory = await mkdtemp(join(tmpdir(), "dsec-gateway-test-"));
  const store = createStore({ sql, wake, leaseTtlMs: options.leaseTtlMs ?? LIMITS.leaseTtlMs });
  const logged: Parameters<GatewayPorts["log"]>[0][] = [];
  const clock = { nowMs: Date.now() };
  const ports: GatewayPorts = {
    store,
    wake,
    blobs: await openDiskBlobs(join(directory, "blobs")),
    keys: createKeyRing({ current: await generateWebCryptoSigner("EdDSA"), now: () => clock.nowMs }),
    config: {
      issuer: ISSUER,
      rateRequestsPerS: options.rateRequestsPerS ?? 0,
      rateBurst: options.rateBurst ?? 0,
      privateNetworks: options.privateNetworks,
    },
    ...options.parts,
    now: () => clock.nowMs,
    log: (event) => logged.push(event),
  };
  const closing = new AbortController();
  const { app, gateway } = createGateway(ports, { closing: closing.signal });
  const fetch = async (path: string, init?: RequestInit) => app.fetch(new Request(`${ISSUER}${path}`, init));

  return {
    app,
    gateway,
    ports,
    sql,
    store,
    wake,
    clock,
    logged,
    closing,
    fetch,
    /** A new key, and calls made with it. */
    async client(...scopes: Scope[]) {
      const { id, secret, secretHash } = await mintKey();
      await store.createKey({ id, name: "test", scopes, expiresAt: null, secretHash });
      return new Client(fetch, secret, id);
    },
    async executor(capacity: Partial<WireResources> = {}, images: string[] = []) {
      const enroller = await this.client("executors:enrol");
      const identity = new TestExecutor();
      const enrolment = {
        public_key: identity.publicKey,
        capacity: { ...CAPACITY, ...capacity },
        images,
        build: "0.1.0+test",
        host: { hostname: "host-1", kernel: "6.18.0", cgroup: "v2" as const, arch: "x64" },
      };
      const request = await signEnrolment(enrolment, {
        apiKey: enroller.secret,
        nowMs: clock.nowMs,
        sign: identity.sign,
      });
      const { executor_id } = await enroller.ok<{ executor_id: string }>(
        "POST",
        "/v1/executors/enrol",
        request,
      );
      // It sends no heartbeats, and is not to be lost for as long as a file's tests take.
      await sql.query("update executors set last_seen_at = dsec_now() + interval '1 hour' where id = $1", [
        executor_id,
      ]);
      return new ExecutorClient(fetch, identity, executor_id, clock);
    },
    async close() {
      closing.abort();
      await store.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

type Fetch = (path: string, init?: RequestInit) => Promise<Response>;
export type Failure = {
  error: { code: string; message: string; details?: Record<string, unknown>; request_id: string };
};

export class Client {
  readonly fetch: Fetch;
  readonly secret: string;
  readonly id: string;

  constructor(fetch: Fetch, secret: string, id: string) {
    this.fetch = fetch;
    this.secret = secret;
    this.id = id;
  }

  protected async authorization(): Promise<string> {
    return `Bearer ${this.secret}`;
  }

  async send(method: string, path: string, body?: unknown, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (!headers.has("authorization")) headers.set("authorization", await this.authorization());
    if (body !== undefined && !headers.has("content-type")) headers.set("content-type", "application/json");
    const raw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
    const content = raw ? (body as BodyInit | undefined) : JSON.stringify(body);
    return this.fetch(path, {
      ...init,
      method,
      headers,
      ...(content === undefined ? {} : { body: content }),
    });
  }

  /** The answer's JSON; throws where it is a failure, with the failure. */
  async ok<T>(method: string, path: string, body?: unknown, init?: RequestInit): Promise<T> {
    const response = await this.send(method, path, body, init);
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  async refused(
    method: string,
    path: string,
    body?: unknown,
    init?: RequestInit,
  ): Promise<Failure["error"] & { status: number }> {
    const response = await this.send(method, path, body, init);
    const text = await response.text();
    if (response.ok) throw new Error(`${method} ${path} was not refused: ${response.status} ${text}`);
    return { ...(JSON.parse(text) as Failure).error, status: response.status };
  }

  submit(request: Partial<TaskRequest> = {}, init?: RequestInit): Promise<Task> {
    return this.ok<Task>("POST", "/v1/tasks", { command: ["true"], ...request }, init);
  }

  async upload(content: string | Uint8Array): Promise<string> {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    const headers = { "content-type": "application/octet-stream" };
    const { artifact } = await this.ok<{ artifact: string }>("PUT", "/v1/artifacts", bytes, { headers });
    return artifact;
  }
}

/** An executor as the gateway sees it over HTTP. It runs nothing: the test says what the sandbox did. */
export class ExecutorClient extends Client {
  readonly identity: TestExecutor;
  readonly executorId: string;
  readonly #clock: { nowMs: number };

  constructor(fetch: Fetch, identity: TestExecutor, executorId: string, clock: { nowMs: number }) {
    super(fetch, "", executorId);
    this.identity = identity;
    this.executorId = executorId;
    this.#clock = clock;
  }

  protected override async authorization(): Promise<string> {
    return `Bearer ${await this.token()}`;
  }

  token(
    claims: { iat?: number; exp?: number; aud?: string; iss?: string; typ?: string } = {},
  ): Promise<string> {
    const nowS = Math.floor(this.#clock.nowMs / 1000);
    const iat = claims.iat ?? nowS;
    return new SignJWT({})
      .setProtectedHeader({ alg: "EdDSA", typ: claims.typ ?? "dsec-executor+jwt" })
      .setIssuer(claims.iss ?? this.executorId)
      .setAudience(claims.aud ?? ISSUER)
      .setIssuedAt(iat)
      .setExpirationTime(claims.exp ?? iat + 60)
      .sign(this.identity.privateKey);
  }

  async acquire(waitMs = 0, maxLeases = 1): Promise<Lease[]> {
    const body = { free: CAPACITY, max_leases: maxLeases, wait_ms: waitMs };
    return (await this.ok<{ leases: Lease[] }>("POST", "/v1/leases", body)).leases;
  }

  async start(lease: Lease): Promise<void> {
    const { lease_id, fence } = lease;
    await this.ok("POST", "/v1/leases/events", { events: [{ type: "running", lease_id, fence }] });
  }

  async print(lease: Lease, text: string, offset = 0): Promise<void> {
    const { lease_id, fence } = lease;
    const event = { type: "stdout", lease_id, fence, offset, data: Buffer.from(text).toString("base64") };
    await this.ok("POST", "/v1/leases/events", { events: [event] });
  }

  /** Uploads what the attempt left and says how it ended, as evidence that is signed for it. */
  async finish(
    lease: Lease,
    left: { stdout?: string; files?: Record<string, string>; exitCode?: number } = {},
  ): Promise<Task> {
    const result = await this.result(lease, left);
    const evidence = await this.identity.sendEvidence(this.evidence(lease, result));
    return this.ok<Task>("POST", `/v1/leases/${lease.lease_id}/complete`, {
      fence: lease.fence,
      result,
      evidence,
    });
  }

  async result(
    lease: Lease,
    left: { stdout?: string; files?: Record<string, string>; exitCode?: number } = {},
  ): Promise<Result> {
    const { stdout = "", files = {}, exitCode = 0 } = left;
    const outputs = [];
    for (const [path, content] of Object.entries(files)) {
      const { digest, size } = await this.#put(lease, content);
      outputs.push({ path, digest, size });
    }
    const out = await this.#put(lease, stdout);
    return {
      outcome: { reason: "exited", exit_code: exitCode, signal: null, message: null },
      outputs,
      stdout: { digest: out.digest, kept_bytes: out.size, total_bytes: out.size },
      stderr: { digest: await sha256(""), kept_bytes: 0, total_bytes: 0 },
    };
  }

  evidence(lease: Lease, result: Result): Evidence {
    return {
      profile: "urn:dsec:evidence:1",
      task_id: lease.task_id,
      lease_id: lease.lease_id,
      fence: lease.fence,
      attempt: lease.attempt,
      executor_id: this.executorId,
      build: "0.1.0+test",
      host: { hostname: "host-1", kernel: "6.18.0", cgroup: "v2", arch: "x64" },
      spec_digest: lease.spec_digest,
      nonce: lease.spec.nonce,
      image: { name: lease.spec.image, digest: `sha256:${"0".repeat(64)}` },
      resources: { ...DEFAULT_RESOURCES, ...lease.spec.resources },
      isolation: ISOLATION,
      result,
      calls: { count: 0, receipts_root: null },
      trace: {
        count: 0,
        chain_head: `sha256:${"0".repeat(64)}`,
        digest: result.stdout.digest,
        size: result.stdout.kept_bytes,
      },
      durations_us: { launch: 1000, run: 2000 },
      usage: null,
    };
  }

  async #put(lease: Lease, content: string): Promise<{ digest: `sha256:${string}`; size: number }> {
    const bytes = new TextEncoder().encode(content);
    const digest = await sha256(bytes);
    if (bytes.length > 0) {
      const path = `/v1/leases/${lease.lease_id}/blobs/${digest}?fence=${lease.fence}`;
      await this.ok("PUT", path, bytes, { headers: { "content-type": "application/octet-stream" } });
    }
    return { digest, size: bytes.length };
  }
}

/** What an EventSource would see. */
export type SseMessage = { id: string | undefined; event: string | undefined; data: string };

/** Reads a stream of events until it ends, or until `enough` says so. */
export async function readEvents(
  response: Response,
  enough: (messages: SseMessage[]) => boolean = () => false,
): Promise<SseMessage[]> {
  const messages: SseMessage[] = [];
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body! as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const fields = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const field = (name: string) =>
        fields.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field("data");
      if (data !== undefined) messages.push({ id: field("id"), event: field("event"), data });
    }
    if (enough(messages)) break;
  }
  return messages;
}

export { jsonDigest, newId };
