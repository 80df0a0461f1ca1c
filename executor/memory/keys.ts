/** What callers may name, and the errors that say how to name it. */
import { Buffer } from "node:buffer";
import type { z } from "zod";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { faultText, readAs } from "#core/schema-faults.ts";
import { MemoryKeySchema } from "#core/wire/memory.ts";
import type { Lifetime } from "./store.ts";

/** INVALID_REQUEST where the key is empty, too long, `.` or `..`, or holds U+0000 or a lone surrogate. */
export function checkKey(key: string): void {
  if (!PLAIN_KEY.test(key)) check(MemoryKeySchema, key, `memory key ${quote(key)}`);
}

/** Most keys; not a dot, which may be one of two. */
const PLAIN_KEY = /^[\w:-]{1,128}$/;

/** A prefix is the beginning of a key, so it may also be empty, `.` or `..`. */
export function checkPrefix(prefix: string): void {
  if (prefix !== "" && prefix !== "." && prefix !== "..")
    check(MemoryKeySchema, prefix, `prefix ${quote(prefix)}`);
}

export function checkTtl(ttlMs: Lifetime): void {
  if (
    ttlMs === null ||
    ttlMs === "keep" ||
    (Number.isSafeInteger(ttlMs) && ttlMs >= 1 && ttlMs <= LIMITS.memoryTtlMsMax)
  )
    return;
  throw new DsecError(
    "INVALID_REQUEST",
    `ttl_ms ${ttlMs}: must be an integer from 1 to ${LIMITS.memoryTtlMsMax}`,
  );
}

export function checkSize(key: string, bytes: number): void {
  if (bytes <= LIMITS.memoryValueBytes) return;
  throw new DsecError(
    "BODY_TOO_LARGE",
    `memory value of ${quote(key)}: ${bytes} bytes, at most ${LIMITS.memoryValueBytes}; write a file and keep its path`,
    { details: { max_bytes: LIMITS.memoryValueBytes } },
  );
}

/** A cursor is the last key that was seen: entries that come or go meanwhile shift no page. */
export function cursorOf(key: string): string {
  return Buffer.from(key, "utf8").toString("base64url");
}

export function keyOfCursor(cursor: string, prefix: string): string {
  const key = Buffer.from(cursor, "base64url").toString("utf8");
  if (cursorOf(key) === cursor && key.startsWith(prefix) && MemoryKeySchema.safeParse(key).success)
    return key;
  throw new DsecError(
    "INVALID_CURSOR",
    `cursor ${quote(cursor)}: pass next_cursor back as it is, with the same prefix`,
  );
}

export function quote(name: string): string {
  return JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
}

export function check(schema: z.ZodType, value: unknown, what: string): void {
  const read = readAs(schema, value);
  if (!read.ok) throw new DsecError("INVALID_REQUEST", `${what}: ${faultText(read.faults[0])}`);
}
