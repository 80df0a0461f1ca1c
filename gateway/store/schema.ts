/**
 * The tables. `npx drizzle-kit generate` writes migrations/*.sql from this file; functions and whatever drizzle
 * cannot say are custom migrations beside them. There are no foreign keys: rows are never deleted while another
 * names them, and the share locks that foreign keys take on every insert would make all submissions of a key,
 * and all claims of an executor, meet on one row.
 */
import { desc, sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  check,
  customType,
  doublePrecision,
  index,
  integer,
  json,
  jsonb,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
  uniqueIndex,
} from "drizzle-orm/pg-core";

export const time = (name: string) => timestamp(name, { withTimezone: true });
const bytea = customType<{ data: Uint8Array }>({ dataType: () => "bytea" });
/** A resource vector, in the order of core's AXES. New axes are appended. */
const vector = (name: string) => integer(name).array().notNull();

export const keys = pgTable("keys", {
  id: text("id").primaryKey(),
  name: text("name").notNull(),
  scopes: jsonb("scopes").notNull(),
  secretHash: bytea("secret_hash").notNull(),
  createdAt: time("created_at").notNull(),
  expiresAt: time("expires_at"),
  revokedAt: time("revoked_at"),
  lastUsedAt: time("last_used_at"),
});

/** Content that a key may name: what it uploaded and what its tasks put out. */
export const artifacts = pgTable(
  "artifacts",
  {
    keyId: text("key_id").notNull(),
    digest: text("digest").notNull(),
    sizeBytes: bigint("size_bytes", { mode: "number" }).notNull(),
    createdAt: time("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.keyId, table.digest] })],
);

/**
 * A task as it was submitted and, once it ended, how. In between it is one row elsewhere: in `queue` until it is
 * claimed, in `leases` while it is held. This row is written twice in a life without faults, and neither index nor
 * page changes with the second time.
 */
export const tasks = pgTable(
  "tasks",
  {
    id: text("id").primaryKey(),
    keyId: text("key_id").notNull(),
    idempotencyKey: text("idempotency_key"),
    /** The lease that is held or was the last; while the task is queued, the one that will be granted next. */
    leaseId: text("lease_id").notNull(),
    specDigest: text("spec_digest").notNull(),
    /** Kept as it came: it is handed out whole, and parsing it into jsonb costs more than storing it. */
    spec: json("spec").notNull(),
    labels: jsonb("labels").notNull(),
    /** The image's name where only executors that have it may run the task; null for `host` and digests. */
    imageName: text("image_name"),
    /** Whose messages it shares; null where it is a job of its own. */
    job: text("job"),
    resources: vector("resources"),
    priority: smallint("priority").notNull(),
    /** Place in the fair order among tasks of one priority: start tag of start-time fair queueing. */
    rank: bigint("rank", { mode: "number" }).notNull(),
    attemptsMax: integer("attempts_max").notNull(),
    createdAt: time("created_at").notNull(),
    /** `queued` until the last state. Whether it is held meanwhile, and runs, its lease says. */
    state: text("state").notNull(),
    /** As of the latest attempt that ended; that of a held task its lease says. So are all the columns below. */
    fence: bigint("fence", { mode: "number" }).notNull(),
    attempts: integer("attempts").notNull(),
    executorId: text("executor_id"),
    /** How the last attempt's lease ended: completed, failed, released, expired. Null where there was none. */
    leaseEnd: text("lease_end"),
    cancelRequested: boolean("cancel_requested").notNull(),
    /** `seq` of the task's latest event. */
    lastSeq: integer("last_seq").notNull(),
    /** When the last attempt of an ended task was granted and started, and the `seq` of those events. */
    leasedAt: time("leased_at"),
    leasedSeq: integer("leased_seq"),
    startedAt: time("started_at"),
    startedSeq: integer("started_seq"),
    finishedAt: time("finished_at"),
    /** Why it came to its last state. */
    reason: text("reason"),
    result: json("result"),
    attestationId: text("attestation_id"),
  },
  (table) => [
    index("tasks_by_key").on(table.keyId, table.id),
    uniqueIndex("tasks_lease").on(table.leaseId),
    uniqueIndex("tasks_idempotency")
      .on(table.keyId, table.idempotencyKey)
      .where(sql`idempotency_key is not null`),
    // An end changes none of these columns, so that it needs no new entry here either.
    index("tasks_by_job").on(table.keyId, table.job, table.id).where(sql`job is not null`),
    index("tasks_labels").using("gin", sql`labels jsonb_path_ops`).where(sql`labels <> '{}'::jsonb`),
  ],
);

/**
 * Tasks that wait to be claimed, with all that a claim hands out, so that it looks up no task. Rows are inserted and
 * deleted, never updated. Numbers stand first, where they are read without passing over the text.
 */
export const queue = pgTable(
  "queue",
  {
    rank: bigint("rank", { mode: "number" }).notNull(),
    /** Not to be claimed before: the back-off of a retry. */
    availableAt: time("available_at").notNull(),
    fence: bigint("fence", { mode: "number" }).notNull(),
    attempts: integer("attempts").notNull(),
    attemptsMax: integer("attempts_max").notNull(),
    lastSeq: integer("last_seq").notNull(),
    /** What the task asks for, in columns: a claim compares and adds them up for each row it looks at. */
    cpuMillis: integer("cpu_millis").notNull(),
    memoryMb: integer("memory_mb").notNull(),
    gpuMemoryMb: integer("gpu_memory_mb").notNull(),
    diskIops: integer("disk_iops").notNull(),
    networkMbps: integer("network_mbps").notNull(),
    pids: integer("pids").notNull(),
    diskMb: integer("disk_mb").notNull(),
    priority: smallint("priority").notNull(),
    taskId: text("task_id").notNull(),
    leaseId: text("lease_id").notNull(),
    keyId: text("key_id").notNull(),
    specDigest: text("spec_digest").notNull(),
    imageName: text("image_name"),
    /** Null where it is too long to be stored twice: then it is the task's. */
    spec: json("spec"),
  },
  (table) => [index("queue_order").on(desc(table.priority), table.rank, table.taskId)],
);

/** Leases that are held. */
export const leases = pgTable(
  "leases",
  {
    id: text("id").primaryKey(),
    taskId: text("task_id").notNull(),
    executorId: text("executor_id").notNull(),
    fence: bigint("fence", { mode: "number" }).notNull(),
    attempt: integer("attempt").notNull(),
    attemptsMax: integer("attempts_max").notNull(),
    grantedAt: time("granted_at").notNull(),
    leasedSeq: integer("leased_seq").notNull(),
    expiresAt: time("expires_at").notNull(),
    cancelRequested: boolean("cancel_requested").notNull(),
    /** `seq` of the task's latest event. */
    lastSeq: integer("last_seq").notNull(),
    startedAt: time("started_at"),
    startedSeq: integer("started_seq"),
  },
  // None over the executor or the expiry: granting writes one index, renewing none, and the leases that are held at once
  // are few enough to look at.
  (table) => [index("leases_cancelled").on(table.executorId).where(sql`cancel_requested`)],
);

/**
 * What executors hold, as a ledger: an executor holds the sum of its rows. A claim adds a row, an end adds one below
 * zero, and a claim that finds many makes one of them. So ends of one executor's leases never meet on a row.
 */
export const holdings = pgTable(
  "holdings",
  {
    executorId: text("executor_id").notNull(),
    amounts: bigint("amounts", { mode: "number" }).array().notNull(),
  },
  (table) => [index("holdings_by_executor").on(table.executorId)],
);

/** Leases that ended with their task queued again, so that a late or repeated call can be told what became of them. */
export const pastLeases = pgTable("past_leases", {
  id: text("id").primaryKey(),
  taskId: text("task_id").notNull(),
  fence: bigint("fence", { mode: "number" }).notNull(),
  executorId: text("executor_id").notNull(),
  leaseEnd: text("lease_end").notNull(),
});

/** How many tasks came to each last state, in as many parts as keep those who count from meeting. */
export const endCounts = pgTable(
  "end_counts",
  {
    state: text("state").notNull(),
    part: smallint("part").notNull(),
    count: bigint("count", { mode: "number" }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.state, table.part] })],
);

/** Highest rank that was given to a key's tasks at a priority. */
export const shares = pgTable(
  "shares",
  {
    keyId: text("key_id").notNull(),
    priority: smallint("priority").notNull(),
    lastRank: bigint("last_rank", { mode: "number" }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.keyId, table.priority] })],
);

/** Virtual time of each priority: the highest rank claimed so far. A key that was idle starts from here. */
export const turns = pgTable("turns", {
  priority: smallint("priority").primaryKey(),
  rank: bigint("rank", { mode: "number" }).notNull(),
});

/**
 * Live output, and the state events of attempts after which a task was queued again. Other state events are not
 * written a second time: their `seq` and time stand in the task and its lease.
 */
export const taskEvents = pgTable(
  "task_events",
  {
    taskId: text("task_id").notNull(),
    seq: integer("seq").notNull(),
    at: time("at").notNull(),
    type: text("type").notNull(),
    fence: bigint("fence", { mode: "number" }).notNull(),
    state: text("state"),
    reason: text("reason"),
    stream: text("stream"),
    offset: bigint("offset", { mode: "number" }),
    /** Base64, as it came and as it goes out. */
    data: text("data"),
  },
  (table) => [primaryKey({ columns: [table.taskId, table.seq] })],
);

export const executors = pgTable("executors", {
  id: text("id").primaryKey(),
  publicKeyX: text("public_key_x").notNull().unique("executors_public_key"),
  capacity: vector("capacity"),
  free: vector("free"),
  images: jsonb("images").notNull(),
  running: integer("running").notNull(),
  build: text("build").notNull(),
  host: jsonb("host").notNull(),
  draining: boolean("draining").notNull(),
  enrolledAt: time("enrolled_at").notNull(),
  lastSeenAt: time("last_seen_at").notNull(),
});

export const attestations = pgTable(
  "attestations",
  {
    id: text("id").notNull(),
    taskId: text("task_id").notNull(),
    fence: bigint("fence", { mode: "number" }).notNull(),
    jwt: text("jwt").notNull(),
    evidence: text("evidence").notNull(),
    issuedAt: time("issued_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.taskId, table.fence] })],
);

/** Every call whose signature was made, before it is sent. */
export const calls = pgTable(
  "calls",
  {
    taskId: text("task_id").notNull(),
    fence: bigint("fence", { mode: "number" }).notNull(),
    seq: integer("seq").notNull(),
    /** SHA-256 of the call signature. */
    digest: text("digest").notNull(),
    /** Null while a signature that was issued for later is not used. */
    usedAt: time("used_at"),
    /** Past it no receipt will come any more: the gateway that made the call is gone, or nobody made it. */
    deadlineAt: time("deadline_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.taskId, table.fence, table.seq] })],
);

export const receipts = pgTable(
  "receipts",
  {
    taskId: text("task_id").notNull(),
    fence: bigint("fence", { mode: "number" }).notNull(),
    seq: integer("seq").notNull(),
    leaseId: text("lease_id").notNull(),
    jwt: text("jwt").notNull(),
    /** The receipt's hash as a leaf of the attempt's Merkle tree, so that its root needs no receipt read. */
    leaf: text("leaf").notNull(),
    issuedAt: time("issued_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.taskId, table.fence, table.seq] })],
);

/** What a task's calls have used up, over all its attempts. */
export const callUsage = pgTable("call_usage", {
  taskId: text("task_id").primaryKey(),
  calls: bigint("calls", { mode: "number" }).notNull(),
  bytesUp: bigint("bytes_up", { mode: "number" }).notNull(),
  bytesDown: bigint("bytes_down", { mode: "number" }).notNull(),
});

/** Token buckets of the hosts that a task with a rate calls. */
export const callRates = pgTable(
  "call_rates",
  {
    taskId: text("task_id").notNull(),
    host: text("host").notNull(),
    tokens: doublePrecision("tokens").notNull(),
    /** Milliseconds since the epoch. */
    atMs: doublePrecision("at_ms").notNull(),
  },
  (table) => [primaryKey({ columns: [table.taskId, table.host] })],
);

/** Policies that replace the one of the task's spec, which never changes. */
export const taskPolicies = pgTable("task_policies", {
  taskId: text("task_id").primaryKey(),
  policy: jsonb("policy").notNull(),
  updatedAt: time("updated_at").notNull(),
});

export const secrets = pgTable(
  "secrets",
  {
    keyId: text("key_id").notNull(),
    name: text("name").notNull(),
    hosts: jsonb("hosts").notNull(),
    sealed: text("sealed").notNull(),
    createdAt: time("created_at").notNull(),
    updatedAt: time("updated_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.keyId, table.name] })],
);

/** The one key that the secrets are sealed under, by its digest: gateways with another one do not serve this database. */
export const secretsKey = pgTable(
  "secrets_key",
  {
    only: boolean("only").primaryKey().default(true),
    digest: text("digest").notNull(),
    claimedAt: time("claimed_at").notNull(),
  },
  (table) => [check("secrets_key_only", sql`${table.only}`)],
);

/** What owners put into running sandboxes. A row stays, for it says who did it. */
export const observations = pgTable(
  "observations",
  {
    taskId: text("task_id").notNull(),
    seq: integer("seq").notNull(),
    keyId: text("key_id").notNull(),
    idempotencyKey: text("idempotency_key"),
    at: time("at").notNull(),
    /** JSON text, as it came. */
    content: text("content").notNull(),
    /** Of the attempt whose executor has it; null until one does, 0 where the task ended first. */
    receivedFence: bigint("received_fence", { mode: "number" }),
  },
  (table) => [
    primaryKey({ columns: [table.taskId, table.seq] }),
    uniqueIndex("observations_idempotency")
      .on(table.taskId, table.idempotencyKey)
      .where(sql`idempotency_key is not null`),
    index("observations_waiting").on(table.taskId).where(sql`received_fence is null`),
  ],
);

/** What running attempts have sent of their trajectories: pieces of a file that grows, each content of its own. */
export const trajectoryParts = pgTable(
  "trajectory_parts",
  {
    taskId: text("task_id").notNull(),
    fence: bigint("fence", { mode: "number" }).notNull(),
    atBytes: bigint("at_bytes", { mode: "number" }).notNull(),
    attempt: integer("attempt").notNull(),
    sizeBytes: integer("size_bytes").notNull(),
    digest: text("digest"),
    content: bytea("content"),
  },
  (table) => [primaryKey({ columns: [table.taskId, table.fence, table.atBytes] })],
);
