import { z } from "zod";
import { LIMITS } from "../limits.ts";
import { DigestSchema, FenceSchema, LeaseIdSchema, pageOf, strict, TimeSchema, text } from "./common.ts";

/** RFC 9530 `Content-Digest` with SHA-256 alone, over the body's bytes as they are sent. */
export const ContentDigestSchema = z.string().regex(/^sha-256=:[A-Za-z0-9+/]{43}=:$/, "must be sha-256=:…:");

/** Header fields in order, names as sent, values as Latin-1 text: one character for each byte (RFC 9110 section 5.5). */
export const HeadersSchema = z
  .array(
    z.tuple([
      z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$/, "must be a header name (RFC 9110 section 5.1)"),
      z
        .string()
        .max(LIMITS.callHeaderBytes)
        .regex(/^[\t\x20-\x7e\x80-\xff]*$/, "must be Latin-1 without control characters"),
    ]),
  )
  .max(LIMITS.callHeaders);
export type Headers = z.infer<typeof HeadersSchema>;

/** What a call signature binds: the same members in the one-step and the two-step form. */
const Bound = {
  /** 1, 2, 3… within the attempt; never used twice */
  seq: z.number().int().min(1).max(LIMITS.callsPerAttempt),
  tool: text(128).nullable(),
  method: z.string().regex(/^[A-Z][A-Z-]{0,31}$/, "must be a method in upper case"),
  url: z.string().max(LIMITS.urlChars),
  content_digest: ContentDigestSchema,
  /** head of the executor's event chain before this call */
  prev: DigestSchema,
};

/** First part of a proxied call; the body follows it (docs/tool-calls.md has the framing). */
export const CallHeadSchema = strict({
  ...Bound,
  headers: HeadersSchema,
  content_length: z.number().int().min(0).max(LIMITS.callBodyBytes),
  timeout_ms: z.number().int().min(1).max(LIMITS.callTimeoutMsMax),
  /**
   * What the caller gets. `final`: redirects are followed and content codings undone, for who wants the result. `verbatim`: the
   * answer to this one request as it came, for a program that does both by itself.
   */
  answer: z.enum(["final", "verbatim"]).default("final"),
  /** from POST /v1/calls, or null for the gateway to make one */
  call_signature: z.string().max(LIMITS.callSignatureChars).nullable(),
});
export type CallHead = z.infer<typeof CallHeadSchema>;

export const CallRequestSchema = strict({ lease_id: LeaseIdSchema, fence: FenceSchema, ...Bound });
export type CallRequest = z.infer<typeof CallRequestSchema>;
export const CallResponseSchema = z.object({ call_signature: z.string(), expires_at: TimeSchema });

/** Claims of a call signature, JWS typ dsec-call+jwt: `htm` and `htu` as in DPoP (RFC 9449 section 4.2). */
export const CallClaimsSchema = strict({
  iss: z.string(),
  /** the sandbox, which is the attempt: its lease id */
  sub: LeaseIdSchema,
  fence: FenceSchema,
  seq: Bound.seq,
  jti: z.string().min(16).max(64),
  iat: z.number().int(),
  exp: z.number().int(),
  tool: Bound.tool,
  htm: Bound.method,
  /** the URL as it is sent, without query and fragment */
  htu: z.string().max(LIMITS.urlChars),
  /** SHA-256 of the query exactly as it is sent, without its question mark */
  htq: DigestSchema,
  content_digest: ContentDigestSchema,
  policy_digest: DigestSchema,
  prev: DigestSchema,
});
export type CallClaims = z.infer<typeof CallClaimsSchema>;

/**
 * Of an upstream's answer: three digits (RFC 9112 section 4). Above 599 it means nothing in HTTP, and some servers send it
 * all the same; it is passed on, and counts as one of 5xx does (RFC 9110 section 15).
 */
export const UpstreamStatusSchema = z.number().int().min(100).max(999);

export const FingerprintSchema = strict({
  /** SHA-256 of the decoded body */
  body: DigestSchema,
  /** SHA-256 of the RFC 8785 form without the policy's ignored members; null where the body is not JSON */
  json: DigestSchema.nullable(),
});
export type Fingerprint = z.infer<typeof FingerprintSchema>;

/** Claims of a receipt, JWS typ dsec-receipt+jwt: what came of one call. */
export const ReceiptClaimsSchema = strict({
  iss: z.string(),
  sub: LeaseIdSchema,
  fence: FenceSchema,
  seq: Bound.seq,
  iat: z.number().int(),
  /** SHA-256 of the call signature's compact form */
  call: DigestSchema,
  /** HTTP status of the final answer; null where there was none */
  status: UpstreamStatusSchema.nullable(),
  /** stable code where the call failed */
  error: z.string().max(64).nullable(),
  /** the last URL that was asked */
  url: z.string().max(LIMITS.urlChars),
  /** the URLs before it, each of which answered with a redirect to the next */
  redirects: z.array(z.string().max(LIMITS.urlChars)).max(LIMITS.redirectsMax),
  /** null where no body came: opaque tunnels, WebSockets, calls without an answer */
  fingerprint: FingerprintSchema.nullable(),
  bytes_up: z.number().int().min(0),
  bytes_down: z.number().int().min(0),
  started_at_ms: z.number().int().min(0),
  duration_us: z.number().int().min(0),
  /** the answer ended early: the fingerprint covers what came */
  partial: z.boolean(),
  /** the connection was passed through unopened */
  opaque: z.boolean(),
  /** the connection went to an address that was checked beforehand */
  pinned_dns: z.boolean(),
});
export type ReceiptClaims = z.infer<typeof ReceiptClaimsSchema>;

/** Content types of a proxied call and of its answer. */
export const CALL_TYPE = "application/vnd.dsec.call";
export const ANSWER_TYPE = "application/vnd.dsec.answer";

/** Frames of a proxied answer: a type byte, a 32-bit big-endian length, the payload. */
export const FRAME = { head: 1, data: 2, end: 3, error: 4, receipt: 5 } as const;

export const AnswerHeadSchema = strict({
  status: UpstreamStatusSchema,
  headers: z.array(z.tuple([z.string(), z.string()])),
  url: z.string(),
  redirects: z.array(z.string()),
});
export type AnswerHead = z.infer<typeof AnswerHeadSchema>;

/** The answer is whole. What it says is what its receipt will say. */
export const AnswerEndSchema = strict({
  fingerprint: FingerprintSchema.nullable(),
  bytes_up: z.number().int().min(0),
  bytes_down: z.number().int().min(0),
  duration_us: z.number().int().min(0),
});
export type AnswerEnd = z.infer<typeof AnswerEndSchema>;

/** After the end: the receipt is signed and kept. */
export const AnswerReceiptSchema = strict({ call_signature: z.string(), receipt: z.string() });
export type AnswerReceipt = z.infer<typeof AnswerReceiptSchema>;

/** In place of the end: what came before it is not the whole answer. */
export const AnswerErrorSchema = strict({
  code: z.string(),
  message: z.string(),
  partial: z.boolean(),
  call_signature: z.string(),
  /** null only where the receipt could not be made or kept; then the call stays open until its deadline */
  receipt: z.string().nullable(),
});
export type AnswerError = z.infer<typeof AnswerErrorSchema>;

export const ReceiptSchema = z.object({
  lease_id: LeaseIdSchema,
  fence: FenceSchema,
  seq: Bound.seq,
  receipt: z.string(),
  issued_at: TimeSchema,
});
export type Receipt = z.infer<typeof ReceiptSchema>;
export const ReceiptPageSchema = pageOf(ReceiptSchema);

/** What an attempt's evidence says of its calls, and what the gateway compares with its own record. */
export const CallsSummarySchema = strict({
  /** receipts issued */
  count: z.number().int().min(0).max(LIMITS.callsPerAttempt),
  /** Merkle tree hash (RFC 6962) over the receipts' compact forms in the order of `seq`; null where there are none */
  receipts_root: DigestSchema.nullable(),
});
export type CallsSummary = z.infer<typeof CallsSummarySchema>;
