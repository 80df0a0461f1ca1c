/** What a trace holds that a replay needs: which command ran, what it was answered, what it did in the end. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { faultText, readAs } from "#core/schema-faults.ts";
import type { Observation } from "#core/wire/observations.ts";
import { type TaskSpec, TaskSpecSchema } from "#core/wire/tasks.ts";
import { decodeEvent } from "#trace/events/codec.ts";
import type { TraceEvent } from "#trace/events/event.ts";
import type { TraceHeader } from "#trace/format/header.ts";
import type { TraceSegment } from "#trace/format/segment.ts";
import { openTraceFile } from "#trace/node/files.ts";
import { contentDigest } from "../content-digest.ts";
import { hasEffects } from "./effects.ts";

export type CallStart = Extract<TraceEvent, { type: "tool_call_start" }>;
export type CallEnd = Extract<TraceEvent, { type: "tool_call_end" }>;
export type MessageSend = Extract<TraceEvent, { type: "message" }>;
export type MemoryRead = Extract<TraceEvent, { type: "memory_read" }>;

/**
 * `end` is null where the record breaks off within the call; `toolActed` says that a program of its exec tool made a call in
 * its course that may have done something.
 */
export type RecordedCall = { start: CallStart; end: CallEnd | null; toolActed: boolean };

/**
 * @property injectedSeq number of the event by which it came, and of that by which it was given; null where it was not
 * @property ends calls that had ended before it was given
 */
export type GivenObservation = {
  observation: Observation;
  injectedSeq: number;
  givenSeq: number | null;
  call: number | null;
  ends: number;
};

export type StreamRecord = { bytes: number; digest: Digest };

export type Recording = {
  file: string;
  /** Of the file. */
  digest: Digest;
  header: TraceHeader;
  /** In the order in which they began. */
  calls: RecordedCall[];
  /** What the task's memory held at the start: JSON of an object; null where that was nothing. */
  memoryJson: string | null;
  /** How long its keys had left then, in milliseconds; the others were without end, or an older version recorded them. */
  memoryLifetimesMs: Map<string, number>;
  reads: MemoryRead[];
  observations: GivenObservation[];
  /** Messages that it sent to others of its job, which a replay among them would send again. */
  sends: MessageSend[];
  /** Number of the event that begins a plan step, by its number. */
  steps: Map<number, number>;
  /** The innermost plan step that the agent had open when it did what it did last. */
  lastStep: number | null;
  /** As far as it was recorded: `LIMITS.streamLiveBytes` of each. */
  streams: { stdout: StreamRecord; stderr: StreamRecord };
  /** How the command ended; null where the record breaks off before. */
  end: { exit_code: number | null; signal: number | null; reason: string | null } | null;
  /** The last event by which the agent did something; what came after it, its sandbox's end brought about. */
  lastActSeq: number;
  /** Why this cannot be replayed; empty where it can. */
  obstacles: string[];
};

/**
 * Reads a trace and checks its chain.
 * @throws NOT_FOUND, TRACE_CORRUPT, TRACE_UNSUPPORTED; NOT_REPLAYABLE for a file that is no recording of one attempt
 */
export async function readRecording(file: string): Promise<Recording> {
  const trace = await openTraceFile(file);
  try {
    const [segment, another] = trace.segments;
    if (segment === undefined || another !== undefined) {
      throw new DsecError(
        "NOT_REPLAYABLE",
        `${file} holds ${trace.segments.length} recordings; a replay is of one: name a file that has one`,
      );
    }
    return await recordingOf(file, segment);
  } finally {
    await trace.close();
  }
}

/** The spec of the recorded task, checked against its digest. @throws NOT_REPLAYABLE */
export function recordedSpec({ file, header }: Pick<Recording, "file" | "header">): TaskSpec {
  const { spec_json: text, spec_digest } = header;
  if (text === null) throw new DsecError("NOT_REPLAYABLE", `${file}: ${NO_SPEC}`);
  if (contentDigest(text) !== spec_digest) {
    throw new DsecError("NOT_REPLAYABLE", `${file}: its spec is not the one that ${spec_digest} names`);
  }
  const read = readAs(TaskSpecSchema, JSON.parse(text));
  if (read.ok) return read.value;
  const why = faultText(read.faults[0]);
  throw new DsecError("NOT_REPLAYABLE", `${file}: its spec is of another version of dsec: ${why}`);
}

const NO_SPEC =
  "the task's spec is not in it: it was imported, redacted, recorded by an older version, or is very long";

async function recordingOf(file: string, segment: TraceSegment): Promise<Recording> {
  const { header } = segment;
  const reader = new RecordingReader(header);
  const digest = await digestOfFile(file);
  let bytes = 0;
  await segment.verify((event) => {
    bytes += event.bytes.length;
    if (bytes > 2 * LIMITS.eventLogBytes) {
      throw new DsecError("NOT_REPLAYABLE", `${file} is longer than any attempt's record; it is none`);
    }
    reader.see(decodeEvent(event.bytes, header.started_wall_us));
  });
  return reader.recording(file, digest);
}

const ACTS = new Set<TraceEvent["type"]>([
  ...(["tool_call_start", "memory_read", "memory_write", "message", "output"] as const),
  ...(["context", "reward", "token_logit"] as const),
]);

class RecordingReader {
  readonly #header: TraceHeader;
  readonly #calls = new Map<number, RecordedCall>();
  /** A tool whose answer is given again does not run, and so does not ask for what it asked for. */
  readonly #madeByTools = new Set<number>();
  readonly #injected = new Map<number, { observation: Observation; seq: number }>();
  readonly #observations: GivenObservation[] = [];
  readonly #reads: MemoryRead[] = [];
  readonly #sends: MessageSend[] = [];
  readonly #steps = new Map<number, number>();
  readonly #openSteps: number[] = [];
  readonly #streams = { stdout: new StreamReader(), stderr: new StreamReader() };
  readonly #obstacles = new Set<string>();
  readonly #namespace: string;
  #memoryJson: string | null = null;
  #memoryLifetimesMs = new Map<string, number>();
  #memory: "unseen" | "seen" = "unseen";
  #end: Recording["end"] = null;
  #ends = 0;
  #lastActSeq = 0;

  constructor(header: TraceHeader) {
    this.#header = header;
    this.#namespace = `task:${header.task_id}`;
    const { lease_id, task_id, spec_json, redacted_from_digest, level } = header;
    if (redacted_from_digest !== null)
      this.#refuse("it is redacted: its answers are not those that were given");
    else if (lease_id === null || task_id === null) this.#refuse("it was imported, and no command is known");
    else if (spec_json === null) this.#refuse(NO_SPEC);
    if (level !== null && level !== "full") this.#refuse(`its level is ${level}, which keeps no answers`);
  }

  see(event: TraceEvent): void {
    if (ACTS.has(event.type)) this.#lastActSeq = event.seq;
    switch (event.type) {
      case "tool_call_start":
        if (event.within !== null) {
          this.#madeByTools.add(event.call);
          const tool = this.#calls.get(event.within);
          if (tool !== undefined && hasEffects(event)) tool.toolActed = true;
          break;
        }
        if (event.passage !== null) {
          this.#refuse(
            `call ${event.call} passed a connection through (${event.passage}), whose bytes no record has`,
          );
        }
        this.#calls.set(event.call, { start: event, end: null, toolActed: false });
        break;
      case "tool_call_end":
        this.#seeEnd(event);
        break;
      case "plan_step":
        if (event.state === "begun") {
          this.#steps.set(event.step, event.seq);
          this.#openSteps.push(event.step);
        }
        // The others are ended by their agent; this one its sandbox's end brought about, or that of the step around it.
        if (event.state === "ended" && event.status !== "abandoned")
          this.#openSteps.length = Math.max(0, this.#openSteps.indexOf(event.step));
        if (event.state === "timed_out")
          this.#refuse(`plan step ${event.step} timed out, which depends on time`);
        break;
      case "observation":
        this.#seeObservation(event);
        break;
      case "message":
        if (event.op === "send") this.#sends.push(event);
        if (event.op === "receive") {
          this.#refuse(`it received messages on ${JSON.stringify(event.channel)}, whose text no record has`);
        }
        break;
      case "memory_read":
        this.#seeMemory(event);
        this.#reads.push(event);
        break;
      case "memory_write":
        this.#seeMemory(event);
        break;
      case "memory_snapshot":
        if (this.#memory === "unseen" && event.namespace === this.#namespace) {
          this.#memory = "seen";
          this.#memoryJson = event.entries_json;
          this.#memoryLifetimesMs = new Map(Object.entries(JSON.parse(event.lifetimes_json ?? "{}")));
        }
        break;
      case "output":
        this.#streams[event.stream].add(event.offset, event.data);
        break;
      case "process":
        if (event.state !== "exec") {
          const { exit_code, signal, reason } = event;
          this.#end = { exit_code, signal, reason };
        }
        break;
    }
  }

  recording(file: string, digest: Digest): Recording {
    return {
      file,
      digest,
      header: this.#header,
      calls: [...this.#calls.values()],
      memoryJson: this.#memoryJson,
      memoryLifetimesMs: this.#memoryLifetimesMs,
      reads: this.#reads,
      observations: [...this.#observations, ...this.#ungiven()],
      sends: this.#sends,
      steps: this.#steps,
      lastStep: this.#openSteps.at(-1) ?? null,
      streams: { stdout: this.#streams.stdout.record(), stderr: this.#streams.stderr.record() },
      end: this.#end,
      lastActSeq: this.#lastActSeq,
      obstacles: [...this.#obstacles],
    };
  }

  #seeEnd(end: CallEnd): void {
    if (this.#madeByTools.has(end.call)) return;
    const call = this.#calls.get(end.call);
    if (call === undefined) {
      this.#refuse(`call ${end.call} ends and never started`);
      return;
    }
    call.end = end;
    this.#ends++;
    const { where, via, tool } = call.start;
    const name = `call ${end.call}${tool === null ? "" : ` (${tool})`}`;
    if (end.code === "REPLAY_DIVERGED") this.#refuse(`it is of a replay that left its record at ${name}`);
    // A tool within the sandbox is run again, so nothing has to be given for it.
    if (where === "sandbox") return;
    if (end.state === "answered" && end.answer === null) {
      this.#refuse(
        `the answer to ${name} was not kept, being longer than ${LIMITS.recordedAnswerBytes} bytes`,
      );
    }
    const broken = end.state !== "answered" && end.status !== null && end.status !== 0;
    if (via === "proxy" && broken) this.#refuse(`the answer to ${name} broke off, and where is not recorded`);
  }

  #seeObservation(event: Extract<TraceEvent, { type: "observation" }>): void {
    const { seq: eventSeq, state, observation: seq, source, at, content_json } = event;
    if (state === "injected") {
      if (content_json === null) {
        this.#refuse(`observation ${seq} is recorded without its content`);
        return;
      }
      const content = JSON.parse(content_json) as Observation["content"];
      const observation = { seq, from: source ?? "environment", at: at ?? "", content } as Observation;
      this.#injected.set(seq, { observation, seq: eventSeq });
      return;
    }
    const injected = this.#injected.get(seq);
    if (injected === undefined) {
      this.#refuse(`observation ${seq} was given and never injected`);
      return;
    }
    this.#observations.push({
      ...{ observation: injected.observation, injectedSeq: injected.seq, givenSeq: eventSeq },
      ...{ call: event.call, ends: this.#ends },
    });
  }

  /** What had come and was not given yet. */
  #ungiven(): GivenObservation[] {
    const given = new Set(this.#observations.map(({ observation }) => observation.seq));
    const rest = [...this.#injected.values()].filter(({ observation }) => !given.has(observation.seq));
    return rest.map(({ observation, seq }) => ({ observation, injectedSeq: seq, ...NOT_GIVEN }));
  }

  #seeMemory({
    namespace,
    version,
    type,
    op,
  }: Extract<TraceEvent, { type: "memory_read" | "memory_write" }>): void {
    if (namespace !== this.#namespace) {
      this.#refuse(
        `it used memory ${namespace}, which it shared with others and whose content no record has`,
      );
      return;
    }
    if (this.#memory === "seen") return;
    this.#memory = "seen";
    // Its first write makes an empty namespace's version 1; what is there before is recorded unless it is very large.
    if (version > (type === "memory_write" && op !== "expire" ? 1 : 0)) {
      this.#refuse("its memory was not empty at the start, and is not recorded");
    }
  }

  #refuse(why: string): void {
    this.#obstacles.add(why);
  }
}

/** Of an observation that is due once the record is at its end. */
export const NOT_GIVEN = { givenSeq: null, call: null, ends: Number.POSITIVE_INFINITY } as const;

async function digestOfFile(file: string): Promise<Digest> {
  const sha256 = createHash("sha256");
  for await (const part of createReadStream(file)) sha256.update(part);
  return digestOf(sha256.digest());
}

/** What was recorded of one stream, which comes in order. */
class StreamReader {
  readonly #hash = createHash("sha256");
  #bytes = 0;

  add(offset: number, data: Uint8Array): void {
    if (offset !== this.#bytes) return;
    this.#bytes += data.length;
    this.#hash.update(data);
  }

  record(): StreamRecord {
    return { bytes: this.#bytes, digest: digestOf(this.#hash.digest()) };
  }
}
