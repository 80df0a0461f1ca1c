import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import type { Json } from "#core/json.ts";
import { type Check, compileSchema } from "#core/json-schema.ts";
import { LIMITS } from "#core/limits.ts";
import type { ApiCall, ToolRunEnd } from "#core/wire/channel.ts";
import {
  type ExecTool,
  type HttpTool,
  type Tool,
  type ToolTimeouts,
  toolTimeoutMs,
} from "#core/wire/tools.ts";
import { contentDigest } from "../content-digest.ts";
import type { Egress } from "../egress/egress.ts";
import {
  ExecQueue,
  type ExecToolHome,
  type ExecToolParts,
  runExecTool,
  toolArguments,
} from "../tools/exec-tool.ts";
import type { CallTimings, SerializationTime } from "../trace/call-timings.ts";
import { detailsOf } from "./call-failures.ts";
import { collectBody, header, outgoingCall, outputText, type ToolInput } from "./http-tool.ts";
import type { OutgoingCall, ProxiedCalls } from "./proxied-calls.ts";
import type { Before, CallEnd, RecordedCalls, StartMembers, Tried } from "./recorded-calls.ts";
import {
  executedOutput,
  factsAgain,
  givenOf,
  type Output,
  outputAgain,
  shownErrors,
  shownInput,
  shownOutput,
} from "./tool-output.ts";

/** What the agent is given of a call. */
export type ToolAnswer = {
  /** JSON text, as the tool wrote it */
  outputText: string;
  /** the tool itself says that it failed: a status of 400 and above, an exit code that is not 0 */
  isError: boolean;
  /** the declared observation in place of an answer that did not come in time */
  fallback: boolean;
  call: { number: number; tries: number; duration_ms: number; [member: string]: unknown };
};

export type ApiAnswer = {
  status: number;
  headers: [string, string][];
  url: string;
  redirects: string[];
  body: Buffer;
};

/** Through which door a call came: the routes of tools, MCP, or the loopback proxy. */
export type Via = "http" | "mcp" | "proxy";

/** The declared tools of one task, and calls of the agent's own, as it can make them. */
export class ToolCalls {
  readonly #tools: Map<string, Tool>;
  readonly #checks = new Map<string, Check>();
  readonly #timeouts: ToolTimeouts | null;
  readonly #parts: ToolCallParts;
  readonly #queue = new ExecQueue();
  /** Whereby tools leave sandboxes of their own; null where nothing may. */
  egress: Pick<Egress, "ofTool"> | null = null;
  /** Tools that run within the sandbox now, by the number of their call. */
  readonly #inSandbox = new Map<number, { tool: ExecTool; before: Before; time: SerializationTime }>();
  /** Whose start is being recorded. */
  #beginning = 0;

  constructor(tools: readonly Tool[], timeouts: ToolTimeouts | null, parts: ToolCallParts) {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
    this.#timeouts = timeouts;
    this.#parts = parts;
    for (const { name, parameters } of tools) {
      if (parameters !== undefined) this.#checks.set(name, compileSchema(parameters as Json, `tool ${name}`));
    }
  }

  /** As the agent may see them. */
  list(): ListedTool[] {
    return [...this.#tools.values()].map((tool) => ({
      name: tool.name,
      kind: tool.kind,
      description: tool.description,
      parameters: tool.parameters ?? { type: "object" },
      read_only: tool.read_only,
      timeout_ms: toolTimeoutMs(tool, this.#timeouts),
      where: tool.kind === "exec" ? tool.where : null,
    }));
  }

  /**
   * Calls a tool by its name.
   * @throws TOOL_NOT_FOUND, TOOL_INPUT_INVALID before anything is done; TOOL_TIMED_OUT without a fallback; the gateway's
   * refusal; what became of the call
   */
  async call(
    name: string,
    input: ToolInput,
    via: Via,
    signal: AbortSignal,
    time: SerializationTime,
  ): Promise<ToolAnswer> {
    const tool = time.during(() => this.#find(name, input));
    if (tool.kind === "exec" && tool.where === "sandbox") {
      throw new DsecError(
        "INVALID_REQUEST",
        `tool ${name} runs within the sandbox; call it with dsec-tool exec --tool ${name}`,
        { details: { where: "sandbox" } },
      );
    }
    const timeoutMs = toolTimeoutMs(tool, this.#timeouts);
    // Also finds what is wrong with the input before a start is recorded.
    const attempt =
      tool.kind === "http"
        ? this.#httpAttempt(tool, input, timeoutMs, time)
        : this.#execAttempt(tool, input, timeoutMs, time);
    const shown = time.during(() => shownInput(input));
    const end = await this.#parts.recorded.run(
      {
        members: { tool: name, kind: tool.kind, via, read_only: tool.read_only, ...shown },
        timeoutMs,
        retry: tool.kind === "http" ? tool.retry : undefined,
        fallback: tool.fallback === undefined ? null : JSON.stringify(tool.fallback),
        attempt,
        again: (end) => outputAgain(end, tool.kind),
      },
      signal,
    );
    return answerOf(end, tool);
  }

  /** A call of the agent's own. Its answer's status says nothing about us: 404 of the upstream is an answer. */
  async api(
    call: ApiCall,
    signal: AbortSignal,
    time: SerializationTime,
  ): Promise<{ answer: ApiAnswer; call: ToolAnswer["call"] }> {
    const body =
      call.body_base64 === undefined ? Buffer.from(call.body ?? "") : Buffer.from(call.body_base64, "base64");
    const { method, url, headers, timeout_ms: timeoutMs } = call;
    const digest = time.during(() => contentDigest(body));
    const outgoing = {
      tool: null,
      method,
      url,
      headers,
      body,
      digest,
      timeoutMs: gatewayTimeoutMs(timeoutMs),
      answer: "final" as const,
    };
    const end = await this.#parts.recorded.run<ApiAnswer>(
      {
        members: {
          tool: null,
          kind: "http",
          via: "http",
          method,
          url,
          arguments_digest: digest,
          body: body.length <= LIMITS.recordedArgumentsBytes ? body : null,
        },
        timeoutMs,
        retry: call.retry,
        fallback: null,
        attempt: async (signal, number) => {
          this.#parts.timings.serialized(number, time);
          const { head, body, members, facts } = await this.#fetch(
            { ...outgoing, call: number },
            signal,
            time,
          );
          const answer =
            body.length <= LIMITS.recordedAnswerBytes ? { head_json: JSON.stringify(head), body } : null;
          return { value: { ...head, body }, members: { ...members, answer }, facts, status: head.status };
        },
        again: (end) => {
          const { head_json, body } = end.answer!;
          const value = { ...JSON.parse(head_json!), body: Buffer.from(body ?? []) } as ApiAnswer;
          return { value, facts: factsAgain(end, "http"), status: value.status };
        },
      },
      signal,
    );
    if (end.state === "fallback") throw new Error("a call without a fallback had one");
    return { answer: end.value, call: { ...factsOf(end), ...end.facts } };
  }

  /**
   * Begins a tool within the sandbox: what its caller, who is there, has to run.
   * @throws CHANNEL_BUSY where too many have begun and not ended, which the caller alone can tell
   */
  async beginInSandbox(name: string, input: ToolInput, time: SerializationTime): Promise<InSandbox> {
    const tool = time.during(() => this.#find(name, input));
    if (tool.kind !== "exec" || tool.where !== "sandbox") {
      throw new DsecError(
        "INVALID_REQUEST",
        `tool ${name} does not run within the sandbox; POST /v1/tools/${name}`,
      );
    }
    const argv = toolArguments(tool, input);
    const members: StartMembers = {
      tool: name,
      kind: "exec",
      via: "http",
      read_only: tool.read_only,
      where: "sandbox",
      ...time.during(() => shownInput(input)),
    };
    if (this.#inSandbox.size + this.#beginning >= LIMITS.toolRunsOpen) {
      throw new DsecError(
        "CHANNEL_BUSY",
        `tool ${name} is one too many: ${LIMITS.toolRunsOpen} tools have begun within this sandbox and not ended; end one first`,
      );
    }
    this.#beginning++;
    const { number, before } = await this.#parts.recorded.begin(members).finally(() => this.#beginning--);
    this.#parts.timings.serialized(number, time);
    this.#inSandbox.set(number, { tool, before, time });
    return { call: number, command: argv, input, timeout_ms: toolTimeoutMs(tool, this.#timeouts) };
  }

  /** Records how it ended, and gives its caller the same answer that a sibling's would have. */
  async endInSandbox(end: ToolRunEnd, read: SerializationTime): Promise<ToolAnswer> {
    const running = this.#inSandbox.get(end.call);
    if (running === undefined)
      throw new DsecError("TOOL_NOT_FOUND", `no tool of call ${end.call} runs within the sandbox`);
    this.#inSandbox.delete(end.call);
    const { tool, before, time } = running;
    time.us += read.us;
    const stdout = Buffer.from(end.stdout_base64, "base64");
    const stderr = Buffer.from(end.stderr_base64, "base64");
    const succeeded = end.exit_code === 0;
    const shown = time.during(() => ({ ...shownOutput(stdout), ...shownErrors(stderr, succeeded) }));
    const facts = { exit_code: end.exit_code, signal: end.signal, ...shown };
    const state = end.timed_out ? (tool.fallback === undefined ? "timed_out" : "fallback") : "answered";
    const value = time.during(() => executedOutput(stdout, stderr, succeeded));
    const overdue = new DsecError(
      "TOOL_TIMED_OUT",
      `tool ${tool.name} took longer than ${toolTimeoutMs(tool, this.#timeouts)} ms`,
    );
    const given =
      state === "answered"
        ? givenOf(value)
        : state === "fallback"
          ? { answer: { output_json: JSON.stringify(tool.fallback) } }
          : { code: overdue.code, text: overdue.message };
    const { recorded } = this.#parts;
    const failure = recorded.differenceOf(before, { state, ...facts });
    if (failure !== null) {
      const { code, message: text } = failure;
      const told = { code, text, details_json: detailsOf(failure) };
      await recorded.end(end.call, before, { state: "failed", tries: 1, ...facts, ...told });
      throw failure;
    }
    const durationMs = await recorded.end(end.call, before, { state, tries: 1, ...facts, ...given });
    const numbers = { number: end.call, tries: 1, durationMs };
    if (state === "timed_out") throw overdue;
    if (state === "fallback") return answerOf({ ...numbers, state }, tool);
    return answerOf({ ...numbers, state, value, members: {}, facts, status: null }, tool);
  }

  /** The sandbox has ended: what is under way is to end too. `close` follows once it has been answered. */
  giveUp(): void {
    this.#parts.recorded.giveUp();
  }

  /** What ran within the sandbox ended with it. Resolves once the ends of all calls are recorded. */
  async close(): Promise<void> {
    for (const [number, { before }] of this.#inSandbox) {
      await this.#parts.recorded.end(number, before, { state: "cancelled", tries: 1 });
    }
    this.#inSandbox.clear();
    await this.#parts.recorded.close();
  }

  #find(name: string, input: ToolInput): Tool {
    const tool = this.#tools.get(name);
    if (tool === undefined) {
      const names = [...this.#tools.keys()].slice(0, 20).join(", ");
      throw new DsecError(
        "TOOL_NOT_FOUND",
        `the task declares no tool ${name}; ${names === "" ? "it declares none" : `it declares ${names}`}`,
      );
    }
    const why = this.#checks.get(name)?.(input as Json) ?? null;
    if (why !== null)
      throw new DsecError("TOOL_INPUT_INVALID", `input of tool ${name}: ${why.replace(/^the body/, "it")}`);
    return tool;
  }

  #httpAttempt(tool: HttpTool, input: ToolInput, timeoutMs: number, time: SerializationTime) {
    const outgoing = time.during(() => outgoingCall(tool, input, gatewayTimeoutMs(timeoutMs)));
    return async (signal: AbortSignal, number: number): Promise<Tried<Output>> => {
      this.#parts.timings.serialized(number, time);
      const fetching = this.#fetch({ ...outgoing, call: number }, signal, time);
      const { head, body, members, facts, contentType } = await fetching;
      const text = time.during(() => outputText(body, contentType));
      const value = { text, isError: head.status >= 400 };
      return { value, members: { ...members, ...givenOf(value) }, facts, status: head.status };
    };
  }

  #execAttempt(tool: ExecTool, input: ToolInput, timeoutMs: number, time: SerializationTime) {
    toolArguments(tool, input);
    const { home, exec } = this.#parts;
    return async (signal: AbortSignal, number: number): Promise<Tried<Output>> => {
      this.#parts.timings.serialized(number, time);
      // Killed here a moment after the deadline, so that who waits is told first.
      const wayOut = this.egress?.ofTool({ call: number, tool: tool.name }) ?? null;
      const options = { home, number, wayOut, timeoutMs: timeoutMs + EXEC_GRACE_MS, signal };
      const run = () => runExecTool(tool, input, options, exec);
      this.#parts.timings.apart(number, null);
      const { waited, stdout, stderr, ...end } = await this.#queue.run(run, signal);
      const { exitCode, signal: killedBy, reason } = end;
      this.#parts.timings.apart(number, waited);
      const succeeded = reason === "exited" && exitCode === 0;
      const shown = time.during(() => ({ ...shownOutput(stdout), ...shownErrors(stderr, succeeded) }));
      const facts = { exit_code: exitCode, signal: killedBy, reason, ...shown };
      const value = time.during(() => executedOutput(stdout, stderr, succeeded));
      return { value, members: { ...facts, ...givenOf(value) }, facts, status: null };
    };
  }

  async #fetch(outgoing: OutgoingCall, signal: AbortSignal, time: SerializationTime) {
    const { calls } = this.#parts;
    const answer = await calls.open(outgoing, signal);
    const body = await collectBody(answer);
    const { status, headers, url, redirects } = answer.head;
    const fingerprint = calls.report(answer.seq)?.fingerprint ?? null;
    const output = time.during(() => shownOutput(body));
    return {
      head: { status, headers, url, redirects },
      body,
      members: {
        ...{ call_seq: answer.seq, status, ...output },
        ...{
          body_digest: fingerprint?.body as Digest | undefined,
          json_digest: fingerprint?.json as Digest | undefined,
        },
      },
      facts: { seq: answer.seq, status, fingerprint, ...output },
      contentType: header(answer, "content-type"),
    };
  }
}

export type ToolCallParts = {
  recorded: RecordedCalls;
  timings: CallTimings;
  calls: ProxiedCalls;
  exec: ExecToolParts;
  home: ExecToolHome;
};

export type ListedTool = {
  name: string;
  kind: Tool["kind"];
  description: string;
  parameters: unknown;
  read_only: boolean;
  timeout_ms: number;
  where: ExecTool["where"] | null;
};

export type InSandbox = { call: number; command: string[]; input: ToolInput; timeout_ms: number };

const EXEC_GRACE_MS = 50;

/** The gateway is given longer than the agent waits, so that what came late has a receipt that says so. */
function gatewayTimeoutMs(timeoutMs: number): number {
  return Math.min(timeoutMs + LIMITS.lateAnswerMs, LIMITS.callTimeoutMsMax);
}

function answerOf(end: CallEnd<Output>, tool: Tool): ToolAnswer {
  const facts = factsOf(end);
  if (end.state === "fallback") {
    return {
      outputText: JSON.stringify(tool.fallback),
      isError: false,
      fallback: true,
      call: { ...facts, tool: tool.name },
    };
  }
  const call = { ...facts, tool: tool.name, ...end.facts };
  return { outputText: end.value.text, isError: end.value.isError, fallback: false, call };
}

function factsOf({ number, tries, durationMs }: CallEnd<unknown>) {
  return { number, tries, duration_ms: Math.round(durationMs * 1000) / 1000 };
}
