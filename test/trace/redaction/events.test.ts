import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import { canonicalJson, jsonDigest, sha256 } from "#core/json.ts";
import type { EventBody } from "#trace/events/event.ts";
import { entryHash, StateDigest } from "#trace/events/state-digest.ts";
import { validate } from "#trace/format/validate.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { openTraceFile, writeTrace } from "#trace/node/files.ts";
import { redactFile } from "#trace/node/redact-file.ts";
import { patternOf } from "#trace/redaction/patterns.ts";
import { sharedPath } from "../../support/shared.ts";
import { airlineTraces, eventsIn } from "../exchange/imports.ts";
import { FILE_DIGEST, observed, redacted, traceOf } from "./redacted.ts";

const R = "[redacted]";
const bytes = (text: string) => new TextEncoder().encode(text);
const output = (offset: number, text: string, stream: "stdout" | "stderr" = "stdout"): EventBody => ({
  type: "output",
  stream,
  offset,
  data: bytes(text),
});
const marker: EventBody = { type: "process", state: "exec", pid: 2, argv: ["x"] };

describe("a secret that is cut over events", () => {
  test("is found in output, wherever it was cut, and offsets stay those of the stream", async () => {
    const whole = "start mail a@b.example and key=hunter2hunter end\n";
    for (let one = 1; one < whole.length; one += 3) {
      for (let two = one + 1; two < whole.length; two += 7) {
        const segment = await traceOf([
          output(0, whole.slice(0, one)),
          output(0, "other a@b.example", "stderr"),
          marker,
          output(one, whole.slice(one, two)),
          output(two, whole.slice(two)),
        ]);
        const { events } = await redacted(segment, { patterns: ["email"], fields: ["key"] });
        const stdout = events.filter((event) => event.type === "output" && event.stream === "stdout");
        let at = 0;
        let text = "";
        for (const event of stdout) {
          if (event.type !== "output") continue;
          expect(event.offset).toBe(at);
          at += event.data.length;
          text += new TextDecoder().decode(event.data);
        }
        expect(text).toBe(`start mail ${R} and key=${R} end\n`);
        expect(events).toHaveLength(5);
      }
    }
  });

  test("is found in output in letters of any language, wherever its bytes were cut", async () => {
    const whole = Buffer.from("with übergroßes geheimnis, € 語, ended");
    const secret = '{"password":"übergroßes geheimnis, € 語"}';
    for (let at = 1; at < whole.length; at++) {
      const piece = (from: number, to: number): EventBody => {
        return { type: "output", stream: "stdout", offset: from, data: whole.subarray(from, to) };
      };
      const trace = await traceOf([observed(secret), piece(0, at), piece(at, whole.length)]);
      const { events } = await redacted(trace, { fields: ["password"] });
      const said = events.flatMap((event) => (event.type === "output" ? [event.data] : []));
      expect(Buffer.concat(said).toString()).toBe("with [redacted], ended");
    }
  });

  test("is found in tokens, whose ids and candidates go with it", async () => {
    const texts = ["my ", "mail", " is a", "@b", ".exam", "ple", " ok"];
    const token = (text: string, id: number) => ({
      id,
      logprob: -0.5,
      text,
      top_ids: [id, 900],
      top_logprobs: [-0.5, -1],
      top_texts: [text, "other"],
    });
    const events: EventBody[] = [texts.slice(0, 4), texts.slice(4)].map((part, index) => ({
      type: "token_logit",
      source: "assistant",
      tokens: part.map((text, at) => token(text, 1 + at + 4 * index)),
    }));
    const { events: after, text } = await redacted(await traceOf(events), { patterns: ["email"] });
    const tokens = after.flatMap((event) => (event.type === "token_logit" ? event.tokens : []));
    expect(tokens.map((one) => one.text).join("")).toBe(`my mail${R} ok`);
    expect(tokens.map((one) => one.id)).toEqual([1, 2, 0, 0, 0, 0, 7]);
    expect(tokens[3]!.top_ids).toEqual([]);
    expect(tokens.map((one) => one.logprob)).toEqual(Array(7).fill(-0.5));
    expect(text).not.toContain("@b");
  });

  test.each([
    ["a value that is known", { fields: ["first_name"] }, " Alice"],
    ["what a pattern matches", { patterns: ["ipv4"] }, " 192.168.0.1"],
  ])("is found in what a model might have said instead: %s", async (_, asked, candidate) => {
    const spoken = { id: 1, logprob: -0.5, text: " Bob" };
    const quiet = { ...spoken, top_ids: [1, 2], top_logprobs: [-0.5, -1], top_texts: [" Bob", " Eve"] };
    const telling = { ...quiet, top_texts: [" Bob", candidate] };
    const trace = await traceOf([
      { type: "token_logit", source: "assistant", tokens: [telling, quiet] },
      observed('{"first_name":"Alice"}'),
    ]);
    const { events, text } = await redacted(trace, asked);
    if (events[0]?.type !== "token_logit") throw new Error("the event is gone");
    expect(text).not.toContain(candidate);
    expect(events[0].tokens).toMatchObject([
      { ...spoken, top_ids: [], top_logprobs: [], top_texts: [] },
      quiet,
    ]);
  });

  test("of half a megabyte's distance is found in a stream that is longer than what is held of it", async () => {
    const filler = "x ".repeat(40_000);
    const pieces = [filler, filler, filler, `${filler}a@b.ex`, `ample ${filler}`, filler, filler, filler];
    let at = 0;
    const events = pieces.map((text) => {
      at += text.length;
      return output(at - text.length, text);
    });
    const { events: after } = await redacted(await traceOf(events), { patterns: ["email"] });
    const text = after
      .map((event) => (event.type === "output" ? new TextDecoder().decode(event.data) : ""))
      .join("");
    expect(text).toBe(pieces.join("").replace("a@b.example", R));
  });
});

describe("digests cannot be used to confirm a guess", () => {
  const secret = { pin: "4711-0815", n: 1 };
  const start = async (given: Partial<EventBody<"tool_call_start">>): Promise<EventBody> => ({
    type: "tool_call_start",
    call: 1,
    tool: "f",
    kind: "exec",
    via: "http",
    ...given,
  });
  const asked = { fields: ["pin"] };

  test("that of arguments is made anew of what is left, or dropped where they are not at hand", async () => {
    const arguments_digest = await jsonDigest(secret);
    const segment = await traceOf([
      await start({ arguments_json: JSON.stringify(secret), arguments_digest }),
      await start({ call: 2, arguments_digest }),
      await start({ call: 3, arguments_json: '{"n": 2}', arguments_digest: await jsonDigest({ n: 2 }) }),
    ]);
    const { events, text } = await redacted(segment, asked);
    expect(text).not.toContain(arguments_digest);
    expect(events[0]).toMatchObject({ arguments_digest: await jsonDigest({ pin: R, n: 1 }) });
    expect(events[1]).toMatchObject({ arguments_digest: null });
    expect(events[2]).toMatchObject({ arguments_digest: await jsonDigest({ n: 2 }) });
  });

  test("those of answers, memory, contexts, messages, snapshots and the task go or are made anew", async () => {
    const digest = await jsonDigest(secret);
    const entries = { "user/pin": '"4711-0815"', other: "1" };
    const state = new StateDigest(nodeEngine.sha256);
    for (const [key, text] of Object.entries(entries)) state.add(entryHash(key, text, nodeEngine.sha256));
    const end = { type: "tool_call_end", call: 1, state: "answered", tries: 1, duration_us: 1 } as const;
    const digests = {
      output_digest: digest,
      body_digest: digest,
      json_digest: digest,
      memory_digest: digest,
    };
    const segment = await traceOf(
      [
        { type: "context", context_digest: digest, context_json: canonicalJson(secret) },
        await start({ arguments_json: "{}", context_digest: digest, memory_digest: digest }),
        { ...end, ...digests, answer: { output_json: JSON.stringify(secret) } },
        {
          type: "memory_write",
          op: "put",
          namespace: "m",
          key: "pin",
          old: { value_digest: digest, bytes: 9000 },
          new: { value_json: '"4711-0815"', value_digest: digest },
          version: 1,
        },
        {
          type: "memory_snapshot",
          namespace: "m",
          version: 1,
          state_digest: state.digest(),
          entries_json: `{"user/pin":"4711-0815","other":1}`,
          lifetimes_json: `{"user/pin":60000}`,
        },
        { type: "message", op: "send", channel: "c", items: [{ id: 1, body_digest: digest }] },
        { type: "snapshot", snapshot: 1, levels: "2", state_digest: digest, duration_us: 1, stored_bytes: 1 },
        {
          type: "error",
          code: "X",
          text: "",
          payloads: [],
          memory_digest: digest,
          expected_digest: digest,
          actual_digest: digest,
        },
        { type: "tool_call_late", call: 1, late_us: 1, state: "answered", output_digest: digest },
      ],
      { spec_digest: digest, labels_json: '{"pin":"4711-0815","task":3}' },
    );
    const { segment: after, events, text } = await redacted(segment, asked);
    expect(text).not.toContain(digest);
    expect(text).not.toContain("4711");
    expect(text).not.toContain(state.digest());
    const context = await jsonDigest({ pin: R, n: 1 });
    expect(events[0]).toMatchObject({ context_digest: context });
    expect(events[1]).toMatchObject({ context_digest: context, memory_digest: null });
    expect(events[3]).toMatchObject({ new: { value_json: `"${R}"`, value_digest: await jsonDigest(R) } });
    const anew = new StateDigest(nodeEngine.sha256);
    anew.add(entryHash("user/pin", `"${R}"`, nodeEngine.sha256));
    anew.add(entryHash("other", "1", nodeEngine.sha256));
    expect(events[4]).toMatchObject({
      entries_json: `{"user/pin":"${R}","other":1}`,
      state_digest: anew.digest(),
      lifetimes_json: null,
    });
    expect(after.header).toMatchObject({
      redacted_from_digest: FILE_DIGEST,
      spec_digest: null,
      labels_json: `{"pin":"${R}","task":3}`,
    });
    expect(await validate(after)).toMatchObject({ problem_count: 0, events: 9 });
  });

  test("all digests stay where there is nothing to take out", async () => {
    const digest = await sha256("x");
    const segment = await traceOf([await start({ arguments_digest: digest, memory_digest: digest })]);
    const { segment: after } = await redacted(segment, asked);
    expect(after.chainHead).toBe(segment.chainHead);
    expect(after.header).toEqual(segment.header);
  });
});

test("what only the task's spec says is taken out, and its values wherever else they stand", async () => {
  const spec = { command: ["true"], env: { API_KEY: "four words of secret" } };
  const header = { spec_json: JSON.stringify(spec) };
  const only = await redacted(await traceOf([output(0, "nothing")], header), { fields: ["api_key"] });
  expect(only.segment.header.spec_json).toBeNull();
  expect(only.counts).toEqual({ api_key: 1 });
  const said = await redacted(await traceOf([output(0, "four words of secret!")], header), {
    fields: ["api_key"],
  });
  expect(said.text).not.toContain("four words");
  expect(said.text).toContain("[redacted]!");
});

describe("a redacted file", () => {
  const folder = mkdtempSync(join(tmpdir(), "redact-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const options = { fields: ["pin"], patterns: [patternOf("email", 1)] };

  test("names the file that it was made of, is valid, and redacted again is the same byte for byte", async () => {
    const paths = ["a", "b", "c"].map((name) => join(folder, `${name}.trace`));
    const header = { trace_id: "t", source: "dsec", started_wall_us: 9 };
    const events = [observed('{"pin":1234,"mail":"a@b.example"}'), output(0, "a@b.exa"), output(7, "mple")];
    const sealed = await writeTrace(
      paths[0]!,
      header,
      events.map((event, at) => ({ ...event, t_us: at, wall_us: 9 + at })),
    );
    const once = await redactFile(paths[0]!, paths[1]!, options);
    expect(once).toMatchObject({
      from_digest: sealed.digest,
      counts: { pin: 1, email: 1, "output to stdout": 1 },
    });
    const twice = await redactFile(paths[1]!, paths[2]!, options);
    expect(twice).toMatchObject({ counts: {}, digest: once.digest, chain_head: once.chain_head });
    expect(readFileSync(paths[2]!)).toEqual(readFileSync(paths[1]!));
    const trace = await openTraceFile(paths[1]!);
    expect(trace.segments[0]!.header.redacted_from_digest).toBe(sealed.digest);
    expect(await validate(trace.segments[0]!)).toMatchObject({ problem_count: 0, events: 3 });
    await trace.close();
    let read = 0;
    const onEvent = () => read++;
    await expect(redactFile(paths[0]!, paths[1]!, { ...options, onEvent })).rejects.toMatchObject({
      code: "TRACE_EXISTS",
    });
    expect(read, "events read before the name that is taken was refused").toBe(0);
  });

  test("tells from where on a damaged file was not read", async () => {
    const [whole, cut, out] = ["whole", "cut", "out"].map((name) => join(folder, `${name}.trace`));
    const event = { ...observed('{"mail":"a@b.example"}'), t_us: 1, wall_us: 10 };
    await writeTrace(whole!, { trace_id: "t", source: "dsec", started_wall_us: 9 }, [event]);
    const bytes = readFileSync(whole!);
    writeFileSync(cut!, bytes.subarray(0, -1));
    const redacted = await redactFile(cut!, out!, options);
    expect(redacted).toMatchObject({ count: 1, counts: { email: 1 } });
    expect(redacted.damage).toEqual({
      offset: expect.any(Number),
      reason: expect.stringContaining("ends in"),
    });
  });
});

const AIRLINE = sharedPath("data/tau-airline/episodes.jsonl");

test.skipIf(AIRLINE === null)(
  "of the airline episodes no name, address or mail is left, and all stay valid",
  async () => {
    const fields = ["first_name", "last_name", "dob", "address1", "zip", "email"];
    let secrets = 0;
    for await (const segment of airlineTraces(AIRLINE!)) {
      if (Number(segment.header.trace_id.split("-")[1]) % 10 !== 0) continue;
      const before = await eventsIn(segment);
      const values = new Set<string>();
      for (const event of before) {
        if (event.type !== "tool_call_end") continue;
        const json = event.answer?.output_json ?? "";
        for (const [, value] of json.matchAll(/"(?:last_name|dob|address1|email)": "([^"]+)"/g))
          values.add(value!);
      }
      const { text, segment: after, events } = await redacted(segment, { fields, patterns: ["email"] });
      expect(await validate(after)).toMatchObject({ problem_count: 0 });
      expect(events.map(({ type }) => type)).toEqual(before.map(({ type }) => type));
      for (const value of values) {
        secrets++;
        if (value.length >= 4)
          expect(text).not.toMatch(new RegExp(`\\b${value.replace(/[^\w ]/g, "\\$&")}\\b`, "i"));
      }
    }
    expect(secrets).toBeGreaterThan(20);
  },
);

test("the body of an answer in content codings goes whole, for nobody can look into it, and its digests with it", async () => {
  const answered = (fields: [string, string][], body: Uint8Array): EventBody =>
    ({
      ...{ type: "tool_call_end", call: 1, state: "answered", status: 200 },
      ...{ body_digest: FILE_DIGEST, json_digest: FILE_DIGEST },
      answer: { output_json: null, head_json: JSON.stringify({ status: 200, headers: fields }), body },
    }) as EventBody;
  const coded = gzipSync('{"mail":"a@b.example"}');
  const asked = { patterns: ["email"] };
  const first = await redacted(await traceOf([answered([["Content-Encoding", "gzip"]], coded)]), asked);
  const [event] = first.events;
  expect(event).toMatchObject({ body_digest: null, json_digest: null, answer: { body: bytes(R) } });
  expect(first.counts).toEqual({ "answers in content codings": 1 });
  expect((await redacted(first.segment, asked)).events).toEqual(first.events);

  const plain = await traceOf([answered([["content-encoding", "identity"]], bytes("nothing to find"))]);
  expect(await redacted(plain, asked)).toMatchObject({
    counts: {},
    events: [{ answer: { body: bytes("nothing to find") } }],
  });
});
