/**
 * Every failure that leaves a room is a `DsecError` with a stable code. The same codes cross the wire as
 * `{error: {code, message, details?, request_id}}`; clients branch on the code and people read the message.
 */

/** Stable codes and the HTTP status each is answered with. A code is never renamed or reused. */
export const ERROR_STATUS = {
  // what the caller sent
  MALFORMED_JSON: 400,
  INVALID_REQUEST: 400,
  UNSUPPORTED_MEDIA_TYPE: 415,
  BODY_TOO_LARGE: 413,
  IDEMPOTENCY_KEY_REUSED: 422,
  INVALID_CURSOR: 400,
  // who the caller is
  UNAUTHENTICATED: 401,
  KEY_REVOKED: 401,
  FORBIDDEN: 403,
  RATE_LIMITED: 429,
  // what was named
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  TASK_NOT_FOUND: 404,
  LEASE_NOT_FOUND: 404,
  EXECUTOR_NOT_FOUND: 404,
  KEY_NOT_FOUND: 404,
  ARTIFACT_NOT_FOUND: 404,
  OUTPUT_NOT_FOUND: 404,
  ATTESTATION_NOT_FOUND: 404,
  IMAGE_NOT_FOUND: 422,
  IMAGE_INVALID: 422,
  // what could never be granted; one code for each axis of the resource vector
  INSUFFICIENT_CPU: 422,
  INSUFFICIENT_MEMORY: 422,
  INSUFFICIENT_GPU_MEMORY: 422,
  INSUFFICIENT_DISK_IOPS: 422,
  INSUFFICIENT_NETWORK: 422,
  INSUFFICIENT_PIDS: 422,
  INSUFFICIENT_DISK: 422,
  // leases
  LEASE_FENCED: 409,
  LEASE_EXPIRED: 409,
  TASK_ALREADY_FINISHED: 409,
  EXECUTOR_DRAINING: 409,
  // enrolment: the public key did not sign it, or not now
  ENROLMENT_UNPROVEN: 422,
  ENROLMENT_UNTIMELY: 422,
  // evidence and attestation
  EVIDENCE_INVALID: 422,
  EVIDENCE_MISMATCH: 422,
  DIGEST_MISMATCH: 422,
  ATTESTATION_INVALID: 422,
  ATTESTATION_EXPIRED: 422,
  UNKNOWN_SIGNING_KEY: 422,
  UNSUPPORTED_ALGORITHM: 422,
  // policy: what a task may reach
  POLICY_INVALID: 422,
  POLICY_FORBIDDEN: 403,
  URL_INVALID: 400,
  HOST_INVALID: 400,
  REQUEST_TARGET_INVALID: 400,
  DOMAIN_NOT_ALLOWED: 403,
  PLAIN_HTTP_NOT_ALLOWED: 403,
  PORT_NOT_ALLOWED: 403,
  METHOD_NOT_ALLOWED_BY_POLICY: 403,
  PATH_NOT_ALLOWED: 403,
  TLS_NAME_MISMATCH: 403,
  ADDRESS_NOT_ALLOWED: 403,
  DNS_NOT_PINNED: 403,
  TOO_MANY_REDIRECTS: 502,
  BUDGET_EXHAUSTED: 429,
  CALL_RATE_LIMITED: 429,
  // tool calls: refused before anything was sent
  CALL_REPLAYED: 409,
  CALL_SIGNATURE_INVALID: 422,
  CALL_SIGNATURE_EXPIRED: 422,
  SECRET_NOT_FOUND: 404,
  SECRET_FORBIDDEN: 403,
  PROXY_UNAVAILABLE: 501,
  // tool calls: what came of them
  CALL_TIMED_OUT: 504,
  CALL_CANCELLED: 499,
  UPSTREAM_UNREACHABLE: 502,
  UPSTREAM_FAILED: 502,
  RESPONSE_TOO_LARGE: 502,
  RESPONSE_UNDECODABLE: 502,
  FINGERPRINT_MISMATCH: 502,
  SECRET_REFLECTED: 502,
  // tools and the sandbox's channel
  TOOL_NOT_FOUND: 404,
  TOOL_INPUT_INVALID: 422,
  TOOL_TIMED_OUT: 504,
  TOOL_FAILED: 502,
  STEP_NOT_FOUND: 404,
  STEP_TIMED_OUT: 504,
  CHANNEL_BUSY: 429,
  EVENT_LOG_FULL: 507,
  // traces
  TRACE_CORRUPT: 422,
  TRACE_UNSUPPORTED: 422,
  /** What comes before this part of a trajectory is not known; details.size says how far it is. */
  TRACE_GAP: 409,
  QUERY_INVALID: 400,
  /** A trace lacks what a replay would have to give. */
  NOT_REPLAYABLE: 422,
  /** A replayed agent asked for something else than what was recorded; details say what. */
  REPLAY_DIVERGED: 409,
  /** An earlier attempt made the call and was lost within it: whether it did anything is not known here. */
  CALL_OUTCOME_UNKNOWN: 409,
  TRACE_EXISTS: 409,
  TRACE_UNWRITABLE: 507,
  /** Only ever recorded: no write explains what a namespace holds. */
  MEMORY_CHANGED_UNRECORDED: 500,
  /** Only ever recorded: a namespace could not be read when its attempt ended. */
  MEMORY_UNCHECKED: 500,
  OBSERVATIONS_FULL: 429,
  // the sandbox
  COMMAND_NOT_FOUND: 422,
  LAUNCH_FAILED: 500,
  LAUNCHER_LOST: 500,
  OUTPUT_TOO_LARGE: 422,
  HOST_UNSUITABLE: 500,
  /** The spec of a granted task is none that this executor's version takes. */
  TASK_UNSUPPORTED: 422,
  // memory and messages
  MEMORY_NOT_FOUND: 404,
  /** If-Match or If-None-Match did not hold (RFC 9110 section 13.1). */
  MEMORY_VERSION_CONFLICT: 412,
  /** JSON cannot carry the value exactly. */
  MEMORY_VALUE_REFUSED: 422,
  MEMORY_FULL: 507,
  MESSAGE_REFUSED: 422,
  /** Back-pressure: nothing was stored; send again once readers have acknowledged. */
  CHANNEL_FULL: 429,
  // us
  /** The command line could not write what it was told to. */
  OUTPUT_UNWRITABLE: 507,
  CONFIG_INVALID: 400,
  /** Another version of DSec made the database. */
  DATABASE_INCOMPATIBLE: 500,
  STORE_UNAVAILABLE: 503,
  GATEWAY_UNREACHABLE: 503,
  SIGNER_UNAVAILABLE: 503,
  INTERNAL: 500,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

export type ErrorDetails = Record<string, unknown>;

/** The body of every error answer. */
export type ErrorBody = {
  error: { code: ErrorCode; message: string; details?: ErrorDetails; request_id: string };
};

/** An operating failure with a stable code. The message names the object; details are safe to show. */
export class DsecError extends Error {
  override readonly name = "DsecError";
  readonly code: ErrorCode;
  readonly details: ErrorDetails | undefined;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; details?: ErrorDetails } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details;
  }

  get status(): number {
    return ERROR_STATUS[this.code];
  }
}

export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === "string" && Object.hasOwn(ERROR_STATUS, code);
}

/** The wire form of any thrown value. What we did not foresee becomes INTERNAL without its text: it may hold a secret. */
export function errorBody(error: unknown, requestId: string): ErrorBody {
  if (error instanceof DsecError) {
    const { code, message, details } = error;
    return { error: { code, message, ...(details ? { details } : {}), request_id: requestId } };
  }
  const message = `unexpected failure; quote request ${requestId} when reporting it`;
  return { error: { code: "INTERNAL", message, request_id: requestId } };
}
