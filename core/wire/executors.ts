import { z } from "zod";
import { ExecutorIdSchema, pageOf, ResourcesSchema, strict, TimeSchema, text } from "./common.ts";

/** An Ed25519 public key (RFC 8037): 32 bytes, base64url without padding. */
export const PublicKeySchema = strict({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  x: z.string().regex(/^[A-Za-z0-9_-]{43}$/, "must be 32 bytes in base64url"),
});
export type PublicKey = z.infer<typeof PublicKeySchema>;

/** What an executor says of its host; shown in lists and bound into evidence. */
export const HostInfoSchema = strict({
  hostname: text(255),
  kernel: text(255),
  cgroup: z.enum(["v1", "v2"]),
  arch: text(32),
});

const EnrolmentSchema = strict({
  public_key: PublicKeySchema,
  capacity: ResourcesSchema,
  /** Image names that this executor can run, besides `host` and digests that it imports on demand. */
  images: z.array(text(200)).max(1000),
  build: text(200),
  host: HostInfoSchema,
});
export type Enrolment = z.infer<typeof EnrolmentSchema>;

export const EnrolRequestSchema = strict({
  ...EnrolmentSchema.shape,
  /** When it was signed, in seconds since the epoch by the gateway's clock (its `Date` header says it). */
  iat: z.number().int().min(0),
  /** By the public key's own private key, 64 bytes in base64url, over canonical JSON (RFC 8785): docs/attestation.md. */
  signature: z.string().regex(/^[A-Za-z0-9_-]{86}$/, "must be 64 bytes in base64url"),
});
export type EnrolRequest = z.infer<typeof EnrolRequestSchema>;

/** Enrolling again with the same public key returns the same executor with its particulars brought up to date. */
export const EnrolResponseSchema = z.object({ executor_id: ExecutorIdSchema, issuer: z.string() });

export const HeartbeatRequestSchema = strict({
  capacity: ResourcesSchema,
  free: ResourcesSchema,
  images: z.array(text(200)).max(1000),
  running: z.number().int().min(0),
});
export type HeartbeatRequest = z.infer<typeof HeartbeatRequestSchema>;
export const HeartbeatResponseSchema = z.object({ draining: z.boolean() });

export const EXECUTOR_STATES = ["ready", "draining", "lost"] as const;

export const ExecutorSchema = z.object({
  id: ExecutorIdSchema,
  state: z.enum(EXECUTOR_STATES),
  public_key: PublicKeySchema,
  capacity: ResourcesSchema,
  free: ResourcesSchema,
  images: z.array(z.string()),
  running: z.number().int(),
  build: z.string(),
  host: HostInfoSchema,
  enrolled_at: TimeSchema,
  last_seen_at: TimeSchema,
});
export type Executor = z.infer<typeof ExecutorSchema>;
export const ExecutorPageSchema = pageOf(ExecutorSchema);
