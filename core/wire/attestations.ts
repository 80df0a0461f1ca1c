import { z } from "zod";
import { LIMITS } from "../limits.ts";
import { CallsSummarySchema } from "./calls.ts";
import {
  AttestationIdSchema,
  DigestSchema,
  ExecutorIdSchema,
  FenceSchema,
  LeaseIdSchema,
  ResourcesSchema,
  strict,
  TaskIdSchema,
  text,
} from "./common.ts";
import { HostInfoSchema } from "./executors.ts";
import { ImageSchema, ResultSchema } from "./tasks.ts";

/** JOSE `typ` of each token that the system makes (RFC 8725 section 3.11: explicit typing). */
export const TYP = {
  attestation: "dsec-attestation+jwt",
  evidence: "dsec-evidence+jwt",
  call: "dsec-call+jwt",
  receipt: "dsec-receipt+jwt",
  executor: "dsec-executor+jwt",
} as const;

/** `eat_profile` of our attestations (RFC 9711 section 6); docs/attestation.md is the profile's text. */
export const EAT_PROFILE = "urn:dsec:eat-profile:attestation:1";

/** Signature algorithms that the profile names: EdDSA over Ed25519 (RFC 8037) and ES256. Nothing else verifies. */
export const ATTESTATION_ALGORITHMS = ["EdDSA", "ES256"] as const;
export type AttestationAlgorithm = (typeof ATTESTATION_ALGORITHMS)[number];

const inode = z.string().regex(/^[0-9]{1,20}$/);

/**
 * Isolation as the launcher read it from the kernel for this one sandbox, before its command ran: /proc/PID/status,
 * /proc/PID/ns, and the cgroup's own files read back. Never what was asked for.
 */
export const IsolationSchema = strict({
  /** Namespace inode numbers of the sandbox's pid 1, by type. */
  namespaces: strict({
    pid: inode,
    net: inode,
    mnt: inode,
    uts: inode,
    ipc: inode,
    user: inode,
    cgroup: inode,
  }),
  /** Types that the sandbox does not share with the launcher's host namespaces. */
  unshared: z.array(z.enum(["pid", "net", "mnt", "uts", "ipc", "user", "cgroup"])),
  /** `Seccomp:` of /proc/PID/status: 0 none, 1 strict, 2 filter; and how many filters. */
  seccomp_mode: z.number().int().min(0).max(2),
  seccomp_filters: z.number().int().min(0),
  no_new_privs: z.boolean(),
  /** Capability sets as 16 hexadecimal digits, from /proc/PID/status. */
  capabilities: strict({
    effective: z.string().regex(/^[0-9a-f]{16}$/),
    permitted: z.string().regex(/^[0-9a-f]{16}$/),
    inheritable: z.string().regex(/^[0-9a-f]{16}$/),
    bounding: z.string().regex(/^[0-9a-f]{16}$/),
    ambient: z.string().regex(/^[0-9a-f]{16}$/),
  }),
  /** First id and length of the host range that the sandbox's uid 0 maps to. */
  uid_map: strict({ host_first: z.number().int().min(0), length: z.number().int().min(1) }),
  cgroup: z.enum(["v1", "v2"]),
  /** Limits read back from the sandbox's cgroup; null where the kernel has no such controller or no limit is set. */
  limits: strict({
    cpu_millis: z.number().int().nullable(),
    memory_bytes: z.number().int().nullable(),
    pids: z.number().int().nullable(),
    disk_iops: z.number().int().nullable(),
  }),
  /** Interfaces in the network namespace: `["lo"]` where the sandbox has no network. */
  interfaces: z.array(z.string().max(16)).max(16),
  root_filesystem: z.string().max(64),
});
export type Isolation = z.infer<typeof IsolationSchema>;

/** The sealed trace of an attempt: what its hash chain ends with (trace/events/chain.ts), and the file's digest and size. */
export const TraceSummarySchema = strict({
  count: z.number().int().min(0),
  chain_head: DigestSchema,
  digest: DigestSchema,
  size: z.number().int().min(0),
});
export type TraceSummary = z.infer<typeof TraceSummarySchema>;

/**
 * What an executor signs about a finished attempt with its own Ed25519 key (RATS evidence, RFC 9334): a compact
 * JWS with typ dsec-evidence+jwt and the executor id as `kid`, over this object's RFC 8785 form.
 */
export const EvidenceSchema = strict({
  profile: z.literal("urn:dsec:evidence:1"),
  task_id: TaskIdSchema,
  lease_id: LeaseIdSchema,
  fence: FenceSchema,
  attempt: z.number().int().min(1),
  executor_id: ExecutorIdSchema,
  build: text(200),
  host: HostInfoSchema,
  spec_digest: DigestSchema,
  nonce: z.string().nullable(),
  image: strict({ name: ImageSchema, digest: DigestSchema }),
  resources: ResourcesSchema,
  /** Null where the sandbox never came to life. */
  isolation: IsolationSchema.nullable(),
  result: ResultSchema,
  calls: CallsSummarySchema,
  /** Null where the attempt came to no sandbox, so that there was nothing to record. */
  trace: TraceSummarySchema.nullable(),
  /** Durations on the executor's monotonic clock. */
  durations_us: strict({
    launch: z.number().int().min(0),
    run: z.number().int().min(0),
  }),
  usage: strict({
    cpu_us: z.number().int().min(0),
    memory_peak_bytes: z.number().int().min(0),
  }).nullable(),
});
export type Evidence = z.infer<typeof EvidenceSchema>;

/** NumericDate of RFC 7519; whole seconds and never before 1970. */
const seconds = z.number().int().min(0);

/** The claims of an attestation JWT: registered ones, EAT ones (RFC 9711), and ours under `dsec`. */
export const AttestationClaimsSchema = z.strictObject({
  iss: z.string().min(1).max(1024),
  /** the task id */
  sub: TaskIdSchema,
  jti: AttestationIdSchema,
  iat: seconds,
  nbf: seconds,
  exp: seconds,
  eat_profile: z.literal(EAT_PROFILE),
  /** the client's nonce; absent where the task had none */
  eat_nonce: z.string().optional(),
  /** EAT software name and version of the attester (RFC 9711 sections 4.2.6 and 4.2.7) */
  swname: z.literal("dsec-executor"),
  swversion: z.tuple([text(200)]),
  dsec: strict({
    lease_id: LeaseIdSchema,
    fence: FenceSchema,
    attempt: z.number().int().min(1),
    spec_digest: DigestSchema,
    image: strict({ name: ImageSchema, digest: DigestSchema }),
    executor: strict({
      id: ExecutorIdSchema,
      /** RFC 7638 thumbprint of the executor's public key */
      jkt: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
      host: HostInfoSchema,
    }),
    resources: ResourcesSchema,
    isolation: IsolationSchema.nullable(),
    result: ResultSchema,
    /** the tool calls of the attempt, as executor and gateway both recorded them */
    calls: CallsSummarySchema,
    /** the recording of the attempt; null where it came to no sandbox */
    trace: TraceSummarySchema.nullable(),
    durations_us: EvidenceSchema.shape.durations_us,
    usage: EvidenceSchema.shape.usage,
    /** SHA-256 of the evidence JWS exactly as the executor sent it */
    evidence_digest: DigestSchema,
  }),
});
export type AttestationClaims = z.infer<typeof AttestationClaimsSchema>;

export const AttestationSchema = z.object({
  id: AttestationIdSchema,
  task_id: TaskIdSchema,
  fence: FenceSchema,
  jwt: z.string(),
  evidence: z.string(),
  issued_at: z.iso.datetime({ offset: false }),
});
export type Attestation = z.infer<typeof AttestationSchema>;
/** Newest first; a task has one for each attempt that ended under a living executor. */
export const AttestationListSchema = z.object({ items: z.array(AttestationSchema) });

export const VerifyRequestSchema = strict({
  jwt: z.string().max(LIMITS.jwtBytes),
  nonce: z.string().max(LIMITS.nonceChars).optional(),
});
export const VerifyResponseSchema = z.object({ valid: z.literal(true), claims: AttestationClaimsSchema });

export const JwkSchema = z.looseObject({
  kty: z.string(),
  kid: z.string(),
  alg: z.string(),
  use: z.literal("sig"),
});
export const JwksSchema = z.object({ keys: z.array(JwkSchema) });
