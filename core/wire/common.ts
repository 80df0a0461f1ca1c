import { z } from "zod";
import { ERROR_STATUS, type ErrorCode } from "../errors.ts";
import { type Digest, idPattern, isDigest } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import type { Resources } from "../resources.ts";

/** Wire objects refuse members they do not know: a misspelt limit must not be a missing limit. */
export const strict = z.strictObject;

export const TaskIdSchema = z.string().regex(idPattern("task"), "must be a task id such as task_01j…");
export const LeaseIdSchema = z.string().regex(idPattern("lease"), "must be a lease id such as lease_01j…");
export const ExecutorIdSchema = z.string().regex(idPattern("executor"), "must be an executor id, exec_01j…");
export const KeyIdSchema = z.string().regex(idPattern("key"), "must be a key id such as key_01j…");
export const AttestationIdSchema = z
  .string()
  .regex(idPattern("attestation"), "must be an attestation id, att_01j…");

export const DigestSchema = z
  .string()
  .refine((text): text is Digest => isDigest(text), "must be sha256: and 64 lower-case hexadecimal digits");

/** `host`, or a content address, or a name and tag that executors map to one (`python:3.11`). */
export const ImageSchema = z.union([
  z.literal("host"),
  DigestSchema,
  z
    .string()
    .max(200)
    .regex(
      // a digest that is cut short must not pass for an image named sha256
      /^(?!sha256:)[a-z0-9]+([._/-][a-z0-9]+)*(:[A-Za-z0-9._-]{1,100})?$/,
      "must be host, sha256:…, or a name such as python:3.11",
    ),
]);

/** RFC 3339 time in UTC. */
export const TimeSchema = z.iso.datetime({ offset: false });

/** Fences are 64-bit in the database; a task never has so many attempts that a JSON number loses one. */
export const FenceSchema = z.number().int().min(1).max(Number.MAX_SAFE_INTEGER);

/** Text that may be stored anywhere: PostgreSQL holds no U+0000, and lone surrogates have no UTF-8. */
export function text(maxChars: number) {
  return z
    .string()
    .max(maxChars)
    .refine(
      (value) => !value.includes("\0") && value.isWellFormed(),
      "must not hold U+0000 or lone surrogates",
    );
}

const amount = (max: number) => z.number().int().min(0).max(max);

/** Resource members as clients write them; `cpu_cores` may be fractional to the thousandth. */
export const ResourcesSchema = strict({
  cpu_cores: z
    .number()
    .min(0)
    .max(4096)
    .refine((cores) => Number.isInteger(Math.round(cores * 1e9) / 1e6), "must be a multiple of 0.001"),
  memory_mb: amount(16 * 1024 * 1024),
  gpu_memory_mb: amount(16 * 1024 * 1024),
  disk_iops: amount(10_000_000),
  network_mbps: amount(1_000_000),
  pids: amount(4_194_304),
  disk_mb: amount(1_000_000_000),
});
export type WireResources = z.infer<typeof ResourcesSchema>;

export function fromWire(wire: WireResources): Resources {
  const { cpu_cores, ...rest } = wire;
  return { cpu_millis: Math.round(cpu_cores * 1000), ...rest };
}

export function toWire(resources: Resources): WireResources {
  const { cpu_millis, ...rest } = resources;
  return { cpu_cores: cpu_millis / 1000, ...rest };
}

/** Every list is paged by cursor: pass `next_cursor` back as `cursor` until it is null. */
export const PageQuerySchema = z.strictObject({
  limit: z.coerce.number().int().min(1).max(LIMITS.pageMax).default(LIMITS.pageDefault),
  cursor: z.string().max(512).optional(),
});

export function pageOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item), next_cursor: z.string().nullable() });
}

export const ErrorBodySchema = z.object({
  error: z.object({
    code: z.enum(Object.keys(ERROR_STATUS) as [ErrorCode, ...ErrorCode[]]),
    message: z.string(),
    details: z.record(z.string(), z.unknown()).optional(),
    request_id: z.string(),
  }),
});
