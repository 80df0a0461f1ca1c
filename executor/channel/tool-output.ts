/** What goes into a tool and comes out of it, as the agent is given it and as events show it. */
import { canonicalJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import type { Tool } from "#core/wire/tools.ts";
import { contentDigest } from "../content-digest.ts";
import { exactJson } from "./exact-numbers.ts";
import { jsonText, type ToolInput, utf8Text } from "./http-tool.ts";
import type { ToldEnd, Tried } from "./recorded-calls.ts";

/** JSON text, and whether the tool itself says that it failed. */
export type Output = { text: string; isError: boolean };

/** JSON that the program wrote is the output; so is its text. A failure that says nothing there is told by stderr. */
export function executedOutput(stdout: Buffer, stderr: Buffer, succeeded: boolean): Output {
  if (!succeeded && stdout.length === 0) {
    return { text: JSON.stringify(errorText(stderr)), isError: true };
  }
  const text = jsonText(stdout) ?? JSON.stringify(utf8Text(stdout) ?? { base64: stdout.toString("base64") });
  return { text: stdout.length === 0 ? "null" : text, isError: !succeeded };
}

/** Every input stands in the event by its digest, and itself where it is not too long. */
export function shownInput(input: ToolInput) {
  const canonical = canonicalJson(input);
  const exact = exactJson(input);
  // The RFC 8785 form, which the digest is of, has no number that a double would change.
  const text = exact === JSON.stringify(input) ? canonical : exact;
  const isKept = Buffer.byteLength(text) <= LIMITS.recordedArgumentsBytes;
  return { arguments_digest: contentDigest(canonical), arguments_json: isKept ? text : null };
}

/** What the agent is given, for the event: a replay gives it again. */
export function givenOf({ text, isError }: Output) {
  const isKept = Buffer.byteLength(text) <= LIMITS.recordedAnswerBytes;
  return { is_error: isError, answer: isKept ? { output_json: text.toWellFormed() } : null };
}

/** The output of a declared tool as a record has it. */
export function outputAgain(end: ToldEnd, kind: Tool["kind"]): Omit<Tried<Output>, "members"> {
  const value = { text: end.answer!.output_json!, isError: end.is_error ?? false };
  return { value, facts: factsAgain(end, kind), status: end.status };
}

/** What the agent was told of a call, member by member as it was when it was made. */
export function factsAgain(end: ToldEnd, kind: Tool["kind"]): Tried<unknown>["facts"] {
  const { output_digest, output_bytes, exit_code, signal, reason, stderr, call_seq, status } = end;
  const output = { output_digest, output_bytes };
  if (kind === "exec") {
    return { exit_code, signal, reason, ...output, ...(stderr === null ? {} : { stderr }) };
  }
  const { body_digest: body, json_digest: json } = end;
  return { seq: call_seq, status, fingerprint: body === null ? null : { body, json }, ...output };
}

/** What a tool that failed wrote to its standard error, for the agent and the event; its end where it is long. */
export function shownErrors(stderr: Buffer, succeeded: boolean): { stderr?: string } {
  return succeeded || stderr.length === 0 ? {} : { stderr: errorText(stderr) };
}

/** One that runs within the sandbox gives what it likes. */
function errorText(stderr: Buffer): string {
  return stderr.subarray(-LIMITS.toolErrorBytes).toString("utf8");
}

export function shownOutput(bytes: Buffer) {
  return { output_digest: contentDigest(bytes), output_bytes: bytes.length };
}
