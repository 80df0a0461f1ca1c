import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { call, failed, type Made, remember } from "#test/trace/made-trace.ts";
import { openTraceFile, writeTrace } from "#trace/node/files.ts";
import { dsec } from "./dsec.ts";

const folder = mkdtempSync(join(tmpdir(), "dsec-questions-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const HOSTILE = "<img src=x onerror=alert(1)>\u001b]0;title\u0007\u001b[31m\rred\u202e";

async function write(name: string, events: Made[], labels: unknown = null): Promise<string> {
  const path = join(folder, name);
  const timed = events.map((event, at) => ({ ...event, t_us: event.t_us ?? at * 1000, wall_us: at * 1000 }));
  const labels_json = labels === null ? null : JSON.stringify(labels);
  await writeTrace(path, { trace_id: name, source: "test", started_wall_us: 0, labels_json }, timed);
  return path;
}

function attempt(reward: number, status: string): Made[] {
  return [
    { type: "plan_step", state: "begun", step: 1, name: "track" },
    ...call(1, "get_tracking", { arguments: { id: 1 }, output: { status }, start: { step: 1 } }),
    remember("shipping_status", JSON.stringify(reward === 1 ? status : null)),
    ...call(2, HOSTILE, {
      end: { is_error: reward === 0, timing: { network_us: 300, gpu_us: 100 } },
      start: { step: 1 },
    }),
    ...(reward === 0 ? [failed(`lost ${HOSTILE}`, { call: 2 })] : []),
    { type: "plan_step", state: "ended", step: 1, name: "track", status: "succeeded" },
    {
      type: "reward",
      components: [{ name: "done", value: reward, weight: 1, product: reward }],
      sum: reward,
    },
  ];
}

beforeAll(async () => {
  for (let at = 0; at < 24; at++) {
    const reward = at % 3 === 0 ? 0 : 1;
    const expected_actions = [{ tool: "get_tracking", args: { id: reward } }];
    await write(`run-${String(at).padStart(2, "0")}.trace`, attempt(reward, "sent"), {
      task_id: at,
      expected_actions,
    });
  }
});

test("search finds events over many files, as lines, JSON lines, counts and names", async () => {
  const query =
    'memory_state.shipping_status == null and tool == "get_tracking" and type == "tool_call_start"';
  // before anything was written the status was null in every run
  const lines = await dsec(["trace", "search", folder, "--query", query, "--limit", "2"]);
  expect(lines.code).toBe(0);
  expect(lines.stdout.toString().split("\n")[0]).toBe(
    `${folder}/run-00.trace:2  +0.001000  step 1  call 1  tool_call_start get_tracking {"id":1}`,
  );
  const failures = "is_error and reward == 0";
  const json = await dsec(["trace", "search", `${folder}/run-0*.trace`, "-q", failures, "--json"]);
  const found = json.stdout
    .toString()
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(found).toHaveLength(4);
  expect(found[0]).toMatchObject({ seq: 6, step: 1, call: 2, tool: HOSTILE, event: { is_error: true } });
  const count = await dsec(["trace", "search", folder, "-q", failures, "--count"]);
  expect(count.stdout.toString()).toMatch(/run-00\.trace: 1\n[\s\S]*\n8 in all\n$/);
  const names = await dsec(["trace", "search", folder, "-q", failures, "--files_only"]);
  expect(names.stdout.toString().trim().split("\n")).toHaveLength(8);
});

test("a query that is none is shown with a caret, and a file that is none is left out and told", async () => {
  const wrong = await dsec(["trace", "search", folder, "-q", 'tol == "x"']);
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toMatch(/^tol == "x"\n\^\nerror QUERY_INVALID: query, column 1: .*is tool meant\?/);
  const deep = await dsec([
    "trace",
    "search",
    folder,
    "-q",
    `${"(".repeat(10_000)}seq == 1${")".repeat(10_000)}`,
  ]);
  expect(deep.code).toBe(1);
  expect(deep.stderr.length).toBeLessThan(500);
  const nothing = join(folder, "note.txt");
  writeFileSync(nothing, "no trace");
  const both = await dsec(["trace", "search", nothing, join(folder, "run-00.trace"), "-q", "seq == 1"]);
  expect(both.code).toBe(1);
  expect(both.stdout.toString()).toContain("run-00.trace:1");
  expect(both.stderr).toContain(`left out ${nothing}: TRACE_CORRUPT`);
  const missing = await dsec(["trace", "search", join(folder, "none-*.trace"), "-q", "seq == 1"]);
  expect(missing.stderr).toContain("NOT_FOUND");
});

test("a trace that is found damaged while it is read costs the others nothing", async () => {
  const mixed = mkdtempSync(join(tmpdir(), "dsec-mixed-"));
  for (const name of ["run-00.trace", "run-01.trace", "run-02.trace"])
    copyFileSync(join(folder, name), join(mixed, name));
  const damaged = join(mixed, "run-01.trace");
  const trace = await openTraceFile(damaged);
  const { offset } = trace.segments[0]!.blocks[0]!;
  await trace.close();
  const bytes = readFileSync(damaged);
  // Index and block headers are whole: what is wrong with the frame is only known once it is read.
  const frame = bytes.indexOf(Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), offset);
  bytes[frame + 20]! ^= 1;
  writeFileSync(damaged, bytes);
  for (const [words, kept] of [
    [["report", mixed, "--json"], "run-02.trace"],
    [["search", mixed, "-q", "seq > 0"], "run-02.trace"],
    [["search", mixed, "-q", "seq > 0", "--count"], "17 in all"],
    [["analyze", mixed, "--metric", "latency", "--json"], '"traces": 2'],
  ] as const) {
    const read = await dsec(["trace", ...words]);
    expect(read.stdout.toString(), words.join(" ")).toContain(kept);
    expect(read.stderr).toContain(`left out ${damaged}: TRACE_CORRUPT`);
    expect(read.code).toBe(1);
  }
  rmSync(mixed, { recursive: true });
});

test("who reads one recording is told what of its file could not be read", async () => {
  const cut = join(folder, "cut.part");
  const whole = readFileSync(join(folder, "run-00.trace"));
  writeFileSync(cut, whole.subarray(0, -20));
  const read = await dsec(["trace", "report", cut]);
  expect(read.stderr).toMatch(/left out .*cut\.part: TRACE_CORRUPT: .* is damaged from offset \d+ on/);
  expect(read.code).toBe(1);
  const compared = await dsec(["trace", "diff", cut, join(folder, "run-01.trace")]);
  expect(compared.stderr).toContain("what comes before is compared");
  expect(compared.code).toBe(1);
});

test("what was recorded cannot drive the terminal", async () => {
  const one = join(folder, "run-00.trace");
  const commands = [
    ["parse", one],
    ["search", one, "-q", "seq > 0"],
    ["report", one],
    ["report", folder],
    ["diff", one, join(folder, "run-01.trace")],
    ...["latency", "bottleneck", "size", "tool_heatmap", "memory_links"].map((metric) => {
      return ["analyze", one, "--metric", metric];
    }),
  ];
  for (const words of commands) {
    const { code, stdout } = await dsec(["trace", ...words]);
    expect(code, words.join(" ")).toBe(0);
    expect(stdout.toString(), words.join(" ")).not.toMatch(/[^\P{Cc}\n]|[\u202a-\u202e]/u);
  }
});

test("parse shows all events in order, or those from a step, call or number on", async () => {
  const one = join(folder, "run-00.trace");
  const whole = await dsec(["trace", "parse", one]);
  expect(whole.stdout.toString().trim().split("\n")).toHaveLength(10);
  const json = JSON.parse((await dsec(["trace", "parse", one, "--call", "2", "--json"])).stdout.toString());
  expect(json).toMatchObject({
    file: one,
    segments: [{ state: "sealed", count: 9, header: { trace_id: "run-00.trace" } }],
  });
  expect(json.segments[0].events.map(({ seq }: { seq: number }) => seq)).toEqual([5, 6, 7, 8, 9]);
  const reward = await dsec(["trace", "parse", one, "--section", "reward_signal"]);
  expect(reward.stdout.toString()).toContain("reward 0 = done 0×1");
  const none = await dsec(["trace", "parse", one, "--step", "7"]);
  expect(none.stderr).toContain(`${one} has no plan step 7`);
});

test("parse --json prints one JSON value of a failure too, at whichever place it comes", async () => {
  const one = join(folder, "run-00.trace");
  const failed = async (...words: string[]) => {
    const { code, stdout } = await dsec(["trace", "parse", ...words, "--json"]);
    expect(code, words.join(" ")).toBe(1);
    return JSON.parse(stdout.toString());
  };
  expect(await failed(join(folder, "missing.trace"))).toMatchObject({ error: { code: "NOT_FOUND" } });
  expect(await failed(one, "--call", "99")).toMatchObject({ error: { code: "NOT_FOUND" } });
  // of two recordings in one file the second has no such call
  const other = await write("other", call(1, "get_tracking"));
  const joined = join(folder, "joined");
  writeFileSync(joined, Buffer.concat([readFileSync(one), readFileSync(other)]));
  const half = await failed(joined, "--call", "2");
  expect(half).toMatchObject({
    segments: [{ header: { trace_id: "run-00.trace" } }],
    error: { code: "NOT_FOUND" },
  });
});

test("a reader that goes away lets a command end in order, with 141", async () => {
  const { code, stderr } = await dsec(["trace", "parse", join(folder, "run-00.trace")], { stdout: "gone" });
  expect([code, stderr]).toEqual([141, ""]);
});

test("report tells of one trace what happened, and of many what goes with the reward", async () => {
  const one = JSON.parse(
    (await dsec(["trace", "report", join(folder, "run-00.trace"), "--json"])).stdout.toString(),
  );
  expect(one).toMatchObject({
    ...{ version: 1, kind: "one", calls_left_out: 0, events_left_out: 0 },
    trace: { outcome: "failed", metrics: { reward: 0, error_rate: 0.5, tool_call_accuracy: 0 } },
    rewards: [{ sum: 0, fault: null }],
  });
  expect(one.timeline.map(({ kind }: { kind: string }) => kind)).toEqual(["step", "call", "call"]);
  expect(one.timeline[1]).toMatchObject({
    arguments: { text: '{"id":1}' },
    answer: { text: '{"status":"sent"}' },
    memory: [{ key: "shipping_status", new: "null" }],
  });
  const words = ["trace", "report", folder, "--metric", "tool_call_accuracy", "--cluster_by", "memory_state"];
  const many = JSON.parse((await dsec([...words, "--json"])).stdout.toString());
  expect(many).toMatchObject({
    kind: "many",
    count: 24,
    outcomes: { succeeded: 16, failed: 8 },
    refused_count: 0,
  });
  expect(many.clustering.clusters).toHaveLength(1);
  const features = many.clustering.clusters[0].features.map(({ feature }: { feature: string }) => feature);
  expect(features).toContain("shipping_status=null");
  const hints = many.hints.map(({ text }: { text: string }) => text);
  expect(hints).toContainEqual(
    expect.stringMatching(
      /^shipping_status=null is associated with failure: 8 of 8 traces .*n=24, adjusted p=(0\.000|<0)/,
    ),
  );
  const text = await dsec(words);
  expect(text.stdout.toString()).toMatch(/8 traces .*shipping_status=null/);
});

test("analyze names where time and memory go", async () => {
  const analyze = async (metric: string) =>
    JSON.parse((await dsec(["trace", "analyze", folder, "--metric", metric, "--json"])).stdout.toString());
  const bottleneck = await analyze("bottleneck");
  expect(bottleneck).toMatchObject({
    traces: 24,
    calls: 48,
    timed: 24,
    total_us: 12_000,
    largest: "network",
  });
  expect(bottleneck.parts).toContainEqual({ part: "network", us: 7200, share: 0.6, known_calls: 24 });
  expect(bottleneck.parts).toContainEqual({ part: "unexplained", us: 2400, share: 0.2, known_calls: 24 });
  const latency = await analyze("latency");
  expect(latency.tools[0]).toMatchObject({ count: 24, p50: 500, p99: 500, max: 500, every: 1 });
  const heatmap = await analyze("tool_heatmap");
  expect(heatmap).toMatchObject({ columns: ["track"], rows: [{ calls: [24] }, { calls: [24] }] });
  const size = await analyze("size");
  expect(size.sections.map(({ section }: { section: string }) => section)).toContain("memory_state");
  const links = await write("links.traj.trace", [
    ...call(1, "find", { between: [{ ...remember("id", "7"), call: 1 } as Made] }),
    ...call(2, "buy", {
      between: [{ type: "memory_read", op: "get", namespace: "memory", key: "id", version: 1, call: 2 }],
    }),
    remember("note", '"x"'),
  ]);
  const { stdout } = await dsec(["trace", "analyze", links, "--metric", "memory_links", "--json"]);
  rmSync(links);
  expect(JSON.parse(stdout.toString())).toMatchObject({
    links: [{ key: "id", writer: "find", reader: "buy", reads: 1, example: { written_seq: 2, read_seq: 5 } }],
    unread: [{ key: "note", writer: "(agent)", writes: 1 }],
  });
});

test("diff says where two traces part, which answers changed, and how memory and rewards ended", async () => {
  const [a, b] = [join(folder, "run-01.trace"), join(folder, "other.trace")];
  const other = attempt(1, "lost");
  other.splice(4, 0, ...call(9, "refund", { arguments: '{"b":1,"a":9007199254740993}' }));
  await write("other.trace", other);
  const ended = await dsec(["trace", "diff", a, b, "--json"]);
  const text = await dsec(["trace", "diff", a, b]);
  rmSync(b);
  expect(JSON.parse(ended.stdout.toString())).toMatchObject({
    calls: { a: 2, b: 3, same: 2 },
    first_divergence: { position: 2, b: { tool: "refund", arguments: '{"b":1,"a":9007199254740993}' } },
    changed_answers: [{ a: { answer: '{"status":"sent"}' }, b: { answer: '{"status":"lost"}' } }],
    only_in_a: [],
    only_in_b: [{ tool: "refund" }],
    memory: [{ key: "shipping_status", a: '"sent"', b: '"lost"' }],
    rewards: [
      { name: "done", a: 1, b: 1 },
      { name: "sum", a: 1, b: 1 },
    ],
  });
  expect(text.stdout.toString()).toContain("at call 2:");
  const same = await dsec(["trace", "diff", a, a]);
  expect(same.stdout.toString()).toContain("none: both make the same calls");
});
