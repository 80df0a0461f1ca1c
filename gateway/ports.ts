/**
 * What the gateway needs from outside itself. The app is a pure fetch function over these; Node, Cloudflare and
 * the tests each put their own behind them.
 */
import type { Digest, ExecutorId, KeyId, LeaseId, TaskId } from "#core/ids.ts";
import type { Bucket, Refused, Usage } from "#core/policy/budget.ts";
import type { Resources } from "#core/resources.ts";
import type { Outcome, TaskState } from "#core/task.ts";
import type { Attestation } from "#core/wire/attestations.ts";
import type { CallsSummary, Receipt } from "#core/wire/calls.ts";
import type { Enrolment, Executor, HeartbeatRequest, PublicKey } from "#core/wire/executors.ts";
import type { Key, Scope } from "#core/wire/keys.ts";
import type { EventsRequest, Hold, Lease, RenewResponse } from "#core/wire/leases.ts";
import type { Observation, ObservationForLease } from "#core/wire/observations.ts";
import type { Policy, PolicyBudgets } from "#core/wire/policy.ts";
import type { Secret } from "#core/wire/secrets.ts";
import type { TaskWait } from "#core/wire/task-wait.ts";
import type { Result, Task, TaskEvent, TaskSpec } from "#core/wire/tasks.ts";
import type { VerificationKey } from "#trace/attestation/keys.ts";
import type { MessageStore } from "./message-port.ts";
import type { Upstream } from "./upstream-port.ts";
import type { Wake } from "./wake-port.ts";

export type Page<T> = { items: T[]; next_cursor: string | null };
export type PageQuery = { limit: number; cursor?: string | undefined };

/** A key as authentication needs it. The hash is SHA-256 over the whole secret, which has 256 random bits. */
export type KeyRecord = Key & { secret_hash: Uint8Array };

/** The lease as completion needs it, read before evidence is judged; the write re-checks the fence. */
export type HeldLease = {
  leaseId: LeaseId;
  taskId: TaskId;
  executorId: ExecutorId;
  fence: number;
  attempt: number;
  spec: TaskSpec;
  specDigest: Digest;
  executorKey: PublicKey;
  cancelRequested: boolean;
};

/** What the proxy must know of a lease to judge its calls. */
export type CallContext = { taskId: TaskId; keyId: KeyId; policy: Policy };

/** A call as it is recorded before it is made. A `seq` is taken once within its lease. */
export type RecordedCall = {
  seq: number;
  /** SHA-256 of what its call signature signs (the JWS signing input), which no other call has. */
  digest: Digest;
  /** Until when it is either used (where it was only issued) or has its receipt. */
  deadlineInMs: number;
};

/** A receipt as it is kept, and what the call adds to its task's usage. */
export type KeptReceipt = {
  taskId: TaskId;
  leaseId: LeaseId;
  fence: number;
  seq: number;
  jwt: string;
  /** Its hash as a leaf of the Merkle tree (RFC 6962). */
  leaf: Digest;
  spent: Usage;
};

/** A secret as it lies in the database: sealed, so that who has the database alone cannot read it. */
export type SealedSecret = { name: string; hosts: string[]; sealed: string };

/**
 * All state of the system. Every method is one statement or one transaction; the database's clock decides
 * expiry; a statement that writes for a lease refuses a stale fence itself (LEASE_FENCED, or LEASE_EXPIRED when
 * the time ran out and nobody has it yet). Concurrent single calls of the hot methods are coalesced inside.
 */
/** Of a running attempt's trajectory: in the blob store, or here where it is short (`LIMITS.trajectoryRowBytes`). */
export type TrajectoryPart = { size: number } & (
  | { digest: Digest; content: null }
  | { digest: null; content: Uint8Array }
);

export type Store = MessageStore & {
  // keys
  createKey(key: {
    id: KeyId;
    name: string;
    scopes: Scope[];
    expiresAt: string | null;
    secretHash: Uint8Array;
  }): Promise<Key>;
  findKey(id: KeyId): Promise<KeyRecord | null>;
  listKeys(page: PageQuery): Promise<Page<Key>>;
  /** KEY_NOT_FOUND; revoking twice is one revocation. */
  revokeKey(id: KeyId): Promise<Key>;

  // artifacts: which key may name which content
  recordArtifact(keyId: KeyId, digest: Digest, size: number): Promise<void>;
  /** Those of the digests that the key did not upload and none of its tasks put out. */
  unknownArtifacts(keyId: KeyId, digests: Digest[]): Promise<Digest[]>;

  // tasks; `keyId` null sees every key's
  /**
   * With an idempotency key: the same key and spec return the first task (`created: false`), another spec is
   * IDEMPOTENCY_KEY_REUSED.
   */
  submitTask(task: {
    id: TaskId;
    keyId: KeyId;
    spec: TaskSpec;
    specDigest: Digest;
    idempotencyKey: string | null;
  }): Promise<{ task: Task; created: boolean }>;
  /** The task that this idempotency key has made, if any; IDEMPOTENCY_KEY_REUSED where its spec is another. */
  findSubmission(keyId: KeyId, idempotencyKey: string, specDigest: Digest): Promise<Task | null>;
  getTask(id: TaskId, keyId: KeyId | null): Promise<Task>;
  taskWait(id: TaskId, keyId: KeyId | null): Promise<TaskWait>;
  listTasks(
    query: PageQuery & {
      keyId: KeyId | null;
      state?: TaskState | undefined;
      label?: { name: string; value: string } | undefined;
    },
  ): Promise<Page<Task>>;
  /** Queued: cancelled at once. Held: the holder is told. Final: unchanged. */
  cancelTask(id: TaskId, keyId: KeyId | null): Promise<Task>;
  /** Events with `seq` above `after`, in order. */
  listEvents(taskId: TaskId, after: number, limit: number): Promise<TaskEvent[]>;

  // leases
  acquireLeases(executorId: ExecutorId, free: Resources, max: number): Promise<Lease[]>;
  /**
   * After `acquireLeases` found nothing: lets what is free stand as an offer until `wait` is over, which its signal ends
   * early. A task that is submitted to this process meanwhile may be granted to it as it is stored.
   */
  awaitLease(
    executorId: ExecutorId,
    free: Resources,
    wait: (granted: AbortSignal) => Promise<void>,
  ): Promise<Lease | null>;
  renewLeases(executorId: ExecutorId, holds: Hold[]): Promise<RenewResponse>;
  listCancellations(executorId: ExecutorId): Promise<Hold[]>;
  /** `running` is noted once, whatever comes again. */
  appendEvents(executorId: ExecutorId, events: EventsRequest["events"]): Promise<{ lost: LeaseId[] }>;
  findLease(executorId: ExecutorId, hold: Hold): Promise<HeldLease>;
  /**
   * Repeating the call that ended the lease (same lease, fence and result) returns the same task, so that an
   * executor whose answer was lost can ask again.
   */
  completeLease(executorId: ExecutorId, hold: Hold, result: Result, attestation: Attestation): Promise<Task>;
  failLease(
    executorId: ExecutorId,
    hold: Hold,
    outcome: Outcome,
    attestation: Attestation | null,
  ): Promise<Task>;
  releaseLease(executorId: ExecutorId, hold: Hold): Promise<Task>;
  /** Ends the leases whose time is over: queued again, dead, or cancelled. Returns how many. */
  expireLeases(): Promise<number>;

  // executors
  /** One executor for each public key: returns the id it has, which is `id` only the first time. */
  enrolExecutor(id: ExecutorId, request: Enrolment): Promise<ExecutorId>;
  heartbeat(id: ExecutorId, beat: HeartbeatRequest): Promise<{ draining: boolean }>;
  findExecutor(id: ExecutorId): Promise<Executor>;
  listExecutors(page: PageQuery): Promise<Page<Executor>>;
  drainExecutor(id: ExecutorId): Promise<Executor>;
  /** Capacities and image names of executors that are ready: what a submission is judged against. */
  capacities(): Promise<{ capacity: Resources; images: string[] }[]>;

  // tool calls
  /** The lease's task with the policy in force: the task's own, or what its owner replaced it with. LEASE_*. */
  findCallContext(executorId: ExecutorId, hold: Hold): Promise<CallContext>;
  /** Takes the `seq`, for a call that is made now or was issued to be made later. LEASE_*, CALL_REPLAYED. */
  recordCall(executorId: ExecutorId, hold: Hold, call: RecordedCall, how: "made" | "issued"): Promise<void>;
  /** Makes an issued call, once. LEASE_*, CALL_REPLAYED. */
  useCall(executorId: ExecutorId, hold: Hold, call: RecordedCall): Promise<void>;
  /** Takes the record of a call back of which nothing was sent: nobody waits for its receipt, and its `seq` is free. */
  withdrawCall(taskId: TaskId, fence: number, call: Pick<RecordedCall, "seq" | "digest">): Promise<void>;
  /** Takes one call to a host out of the task's budgets, or says why it may not be made. */
  takeCall(
    taskId: TaskId,
    host: string,
    budgets: PolicyBudgets,
  ): Promise<{ allowed: true; usage: Usage; bucket: Bucket | null } | Refused>;
  recordReceipt(receipt: KeptReceipt): Promise<void>;
  /** The receipts of an attempt, and how many of its calls may still get one. */
  summarizeCalls(taskId: TaskId, fence: number): Promise<CallsSummary & { open: number }>;
  /** A task's receipts in the order of attempt and `seq`. */
  listReceipts(taskId: TaskId, keyId: KeyId | null, page: PageQuery): Promise<Page<Receipt>>;
  /** Those of one attempt, for an executor whose answers were lost. LEASE_*. */
  listLeaseReceipts(executorId: ExecutorId, hold: Hold, page: PageQuery): Promise<Page<Receipt>>;
  getPolicy(taskId: TaskId, keyId: KeyId | null): Promise<{ policy: Policy; updatedAt: string | null }>;
  /** TASK_ALREADY_FINISHED where nothing would be judged by it any more. */
  replacePolicy(taskId: TaskId, keyId: KeyId | null, policy: Policy): Promise<{ updatedAt: string }>;

  // secrets
  /** Makes the secret, or replaces the one of that name. */
  /**
   * Whether the database's secrets are sealed under this key. The first key that is named is the one; it is written down,
   * so that gateways with another one do not begin to serve.
   */
  claimSecretsKey(keyDigest: Digest): Promise<boolean>;
  putSecret(keyId: KeyId, secret: SealedSecret): Promise<{ secret: Secret; created: boolean }>;
  listSecrets(keyId: KeyId): Promise<Secret[]>;
  findSecrets(keyId: KeyId, names: string[]): Promise<SealedSecret[]>;
  /** SECRET_NOT_FOUND. */
  deleteSecret(keyId: KeyId, name: string): Promise<void>;

  // observations
  /**
   * Queues an observation for the task's sandbox; `owner` null may name every task. Repeated with its idempotency key it
   * is the first one, also when the task has ended since; with other content, or by another key, it is
   * IDEMPOTENCY_KEY_REUSED. TASK_NOT_FOUND, TASK_ALREADY_FINISHED, OBSERVATIONS_FULL.
   */
  addObservation(observation: {
    taskId: TaskId;
    owner: KeyId | null;
    keyId: KeyId;
    content: unknown;
    idempotencyKey: string | null;
  }): Promise<{ observation: Observation; created: boolean }>;
  /** Those for leases that the executor holds, in order, which it has not received. */
  waitingObservations(executorId: ExecutorId): Promise<ObservationForLease[]>;
  observationsReceived(
    executorId: ExecutorId,
    received: { lease_id: string; fence: number; through: number }[],
  ): Promise<void>;

  // attestations
  listAttestations(taskId: TaskId, keyId: KeyId | null): Promise<Attestation[]>;

  // trajectories: what running attempts have sent of their recordings
  /**
   * Appends a part at its place; `size` is how far the trajectory is known then. One that is known already changes
   * nothing. LEASE_*, TRACE_GAP where what comes before it is missing.
   */
  appendTrajectory(
    executorId: ExecutorId,
    hold: Hold,
    part: { offset: number } & TrajectoryPart,
  ): Promise<{ size: number }>;
  /** Of a task's attempts, the newest first, and whether they are held; that which is held also before it has sent anything. */
  listTrajectories(
    taskId: TaskId,
    keyId: KeyId | null,
  ): Promise<{ fence: number; attempt: number; size: number; held: boolean }[]>;
  /** Parts that hold bytes from the offset on, in order. */
  listTrajectoryParts(
    taskId: TaskId,
    fence: number,
    offset: number,
    limit: number,
  ): Promise<({ offset: number } & TrajectoryPart)[]>;

  /** Counts by state, for metrics. */
  countTasks(): Promise<Record<TaskState, number>>;
  /** Rejects with STORE_UNAVAILABLE when the database does not answer. */
  ping(): Promise<void>;
  close(): Promise<void>;
};

/** Immutable content by digest. */
export type BlobStore = {
  /**
   * Stores a stream under its digest and checks it while it is written: DIGEST_MISMATCH leaves nothing behind,
   * BODY_TOO_LARGE past `maxBytes`. Storing what is there already is a no-op, but the body
   * is checked all the same: who only knows a digest must not pass for one who has the content. With null the
   * digest is found out.
   */
  put(
    digest: Digest | null,
    body: ReadableStream<Uint8Array>,
    maxBytes: number,
  ): Promise<{ digest: Digest; size: number }>;
  get(digest: Digest): Promise<{ size: number; body: ReadableStream<Uint8Array> } | null>;
  /** Size, or null where it is absent. */
  size(digest: Digest): Promise<number | null>;
};

/** A private key that never leaves its driver: WebCrypto (non-extractable), PKCS#11 or file. */
export type Signer = {
  readonly alg: "EdDSA" | "ES256";
  /** RFC 7638 thumbprint of the public key. */
  readonly kid: string;
  readonly publicJwk:
    | { kty: "OKP"; crv: "Ed25519"; x: string }
    | { kty: "EC"; crv: "P-256"; x: string; y: string };
  /** The raw JWS signature (RFC 7515 appendix A; R||S for ES256) over the bytes. */
  sign(bytes: Uint8Array): Promise<Uint8Array>;
};

/** The keys in force. `jwks` carries the current, the next and the retired keys until no token of theirs is valid. */
export type KeyRing = {
  current(): Signer;
  jwks(): { keys: (Signer["publicJwk"] & { kid: string; alg: string; use: "sig" })[] };
};

/** What checking evidence computes most; every engine gives the same answers. */
export type CryptoEngine = {
  /** An executor's public key; refuses one that proves nothing, as importJwk does. */
  importKey(jwk: PublicKey): Promise<VerificationKey>;
  sha256(text: string): Digest | Promise<Digest>;
};

/** Seals secrets for the database: authenticated encryption under a key that is not in it. */
export type SecretCipher = {
  /** Names the key and tells nothing of it. */
  readonly keyDigest: Digest;
  /** @param context what the secret belongs to; it opens for nothing else */
  seal(value: string, context: string): Promise<string>;
  /** Rejects with CONFIG_INVALID where the key or the context is another one. */
  open(sealed: string, context: string): Promise<string>;
};

export type GatewayConfig = {
  /** `iss` of attestations and `aud` of executor tokens: the public origin of this gateway. */
  issuer: string;
  /** Requests a second and burst that each key may make; 0 turns the limit off. */
  rateRequestsPerS: number;
  rateBurst: number;
  /** Addresses and blocks that policies may name in `allow_private`; none unless given. */
  privateNetworks?: readonly string[] | undefined;
};

export type GatewayPorts = {
  store: Store;
  wake: Wake;
  blobs: BlobStore;
  keys: KeyRing;
  /** WebCrypto does where the runtime has nothing faster. */
  crypto?: CryptoEngine | undefined;
  /** Absent: tool calls are refused with PROXY_UNAVAILABLE. */
  upstream?: Upstream | undefined;
  /** Absent: secrets are refused with PROXY_UNAVAILABLE. */
  secretCipher?: SecretCipher | undefined;
  config: GatewayConfig;
  /** Milliseconds since the epoch. For token times and rate limits, never for leases. */
  now(): number;
  /** One line of structured log; never given a secret. */
  log(event: { level: "info" | "warn" | "error"; message: string; [field: string]: unknown }): void;
};
