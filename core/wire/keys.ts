import { z } from "zod";
import { KeyIdSchema, pageOf, strict, TimeSchema, text } from "./common.ts";

/**
 * `tasks` submits and reads its own tasks and artifacts; `executors:enrol` brings an executor in; `admin`
 * manages keys and executors and sees every task.
 */
export const SCOPES = ["tasks", "executors:enrol", "admin"] as const;
export type Scope = (typeof SCOPES)[number];

export const KeyCreateSchema = strict({
  name: text(100).min(1),
  scopes: z.array(z.enum(SCOPES)).min(1),
  expires_at: TimeSchema.nullable().default(null),
});
export type KeyCreate = z.input<typeof KeyCreateSchema>;

export const KeySchema = z.object({
  id: KeyIdSchema,
  name: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  created_at: TimeSchema,
  expires_at: TimeSchema.nullable(),
  revoked_at: TimeSchema.nullable(),
  last_used_at: TimeSchema.nullable(),
});
export type Key = z.infer<typeof KeySchema>;
export const KeyPageSchema = pageOf(KeySchema);

/** The only answer that ever holds the secret. */
export const KeyCreatedSchema = KeySchema.extend({ secret: z.string() });

/** `dsk_<ulid of the key id>_<43 characters of base64url>`: 256 random bits. */
export const API_KEY = /^dsk_([0-9a-hjkmnp-tv-z]{26})_([A-Za-z0-9_-]{43})$/;
