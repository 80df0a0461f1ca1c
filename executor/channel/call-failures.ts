/** What calls fail of, as retries, agents and records are told. */
import { DsecError, type ErrorCode } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";

const NETWORK = new Set<ErrorCode>(["GATEWAY_UNREACHABLE", "UPSTREAM_UNREACHABLE", "UPSTREAM_FAILED"]);

export function isNetwork(error: unknown): boolean {
  return error instanceof DsecError && NETWORK.has(error.code);
}

export function isTimeout(error: unknown): boolean {
  return error instanceof DsecError && (error.code === "CALL_TIMED_OUT" || error.code === "TOOL_TIMED_OUT");
}

export function missedDeadline(timeoutMs: number, tries: number): DsecError {
  return new DsecError(
    "TOOL_TIMED_OUT",
    `no answer within ${timeoutMs} ms${tries === 1 ? "" : `, ${tries} times`}; give the tool more time or a fallback`,
    { details: { timeout_ms: timeoutMs, tries } },
  );
}

/** What an error tells programs beside its text, for a replay to tell it again; null where there is nothing, or very much. */
export function detailsOf(error: unknown): string | null {
  if (!(error instanceof DsecError) || error.details === undefined) return null;
  const text = JSON.stringify(error.details);
  return Buffer.byteLength(text) <= LIMITS.recordedArgumentsBytes ? text.toWellFormed() : null;
}

/** What events say of a failure: the text of what we did not foresee may hold a secret. */
export function failureOf(error: unknown): { code: string; message: string } {
  if (error instanceof DsecError) {
    return { code: error.code, message: error.message.slice(0, LIMITS.errorTextChars).toWellFormed() };
  }
  if (error instanceof Error && error.name === "AbortError")
    return { code: "CALL_CANCELLED", message: "the client left" };
  return { code: "INTERNAL", message: "unexpected failure" };
}
