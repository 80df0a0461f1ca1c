/** Agent memory, as it crosses the sandbox's socket and the trace. */
import { z } from "zod";
import { LIMITS } from "../limits.ts";
import { DigestSchema, strict, TimeSchema, text } from "./common.ts";

const encoder = new TextEncoder();

/**
 * Any text but the two that URLs cannot carry as a path segment: `.` and `..` are resolved away, however they are
 * escaped (RFC 3986 section 5.2.4). Compared byte by byte, without Unicode normalization.
 */
export const MemoryKeySchema = text(LIMITS.memoryKeyBytes)
  .min(1)
  .refine(
    // No character takes more than three bytes for each UTF-16 unit.
    (key) => key.length * 3 <= LIMITS.memoryKeyBytes || encoder.encode(key).length <= LIMITS.memoryKeyBytes,
    `must be at most ${LIMITS.memoryKeyBytes} bytes in UTF-8`,
  )
  .refine((key) => key !== "." && key !== "..", "must not be . or .., which no URL path can carry");

/** The name of a namespace that several tasks of one owner share. */
export const MemoryNameSchema = text(LIMITS.memoryNameChars).min(1);

/** What a task may do with a shared namespace. */
export const MemoryGrantSchema = strict({ name: MemoryNameSchema, access: z.enum(["read", "write"]) });
export type MemoryGrant = z.infer<typeof MemoryGrantSchema>;

const version = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

export const MemoryWrittenSchema = z.object({
  key: z.string(),
  version,
  expires_at: TimeSchema.nullable(),
});
export type MemoryWritten = z.infer<typeof MemoryWrittenSchema>;

/** `value` is any JSON value. A reader that parses numbers into doubles sees 1 and 1.0 alike; the text tells them apart. */
export const MemoryItemSchema = MemoryWrittenSchema.extend({ value: z.json() });
export const MemoryPageSchema = z.object({
  items: z.array(MemoryItemSchema),
  next_cursor: z.string().nullable(),
});

export const MemorySearchSchema = strict({
  /** Taken literally: no operator, wildcard or pattern has a meaning. */
  text: text(LIMITS.memorySearchTextBytes)
    .min(1, "must not be empty; list the namespace to see everything")
    .refine(
      (value) => encoder.encode(value).length <= LIMITS.memorySearchTextBytes,
      `must be at most ${LIMITS.memorySearchTextBytes} bytes in UTF-8`,
    ),
  namespace: MemoryNameSchema.optional(),
  limit: z.number().int().min(1).max(LIMITS.pageMax).default(LIMITS.pageDefault),
  cursor: z.string().max(1024).optional(),
});

/**
 * A value as an event shows it: its JSON text where that is short, so that 1 and 1.0 stay apart, and otherwise the
 * SHA-256 of the text.
 */
export const MemoryShownSchema = z.union([
  strict({ json: z.string() }),
  strict({ digest: DigestSchema, bytes: z.number().int().min(0) }),
]);
export type MemoryShown = z.infer<typeof MemoryShownSchema>;

/**
 * One read or write. A read shows what was read as both `old` and `new`; for `list` and `search`, `key` is the prefix
 * or the text, and the value stands for the whole page. `clear` shows the state digest of what was removed.
 */
export const MemoryEventSchema = strict({
  /** Place among the events that this memory service reported since it was opened. */
  seq: z.number().int().min(1),
  op: z.enum(["get", "list", "search", "put", "delete", "expire", "clear"]),
  namespace: z.string(),
  key: z.string(),
  old: MemoryShownSchema.nullable(),
  new: MemoryShownSchema.nullable(),
  /** The sandbox that asked, and where in its program, in the program's own words. */
  source: strict({ sandbox: z.string(), origin: z.string().nullable() }),
  /** Of the entry read (0 where there is none), or of the namespace after the write. */
  version,
  at: TimeSchema,
});
export type MemoryEvent = z.infer<typeof MemoryEventSchema>;
