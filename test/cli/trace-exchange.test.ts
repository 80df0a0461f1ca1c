import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { dsec } from "./dsec.ts";

let folder: string;
let traces: string;

const EPISODES = [1, 2, 3].map((id) => ({
  id: `e-${id}`,
  reward: id % 2,
  steps: [
    { kind: "user", content: `I am user${id}@mail.example` },
    {
      kind: "tool",
      tool: "look",
      args: { email: `user${id}@mail.example`, n: 1 },
      response: '{"thing_id":"T1","ok":true}',
    },
    { kind: "assistant", content: "done \u001b[31mred" },
  ],
}));

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "dsec-exchange-"));
  traces = join(folder, "traces");
  writeFileSync(
    join(folder, "set.jsonl"),
    `${EPISODES.map((episode) => JSON.stringify(episode)).join("\n")}\n`,
  );
  const { code, stderr } = await trace("import", "--format", "jsonl", "set.jsonl", "-o", "traces");
  expect(stderr).toMatch(/^3 of 3 records imported: \d+ events, /);
  expect(code).toBe(0);
});
afterAll(() => rmSync(folder, { recursive: true }));

function trace(...words: string[]) {
  return dsec(["trace", ...words], { cwd: folder });
}

test("every command's help has an example, and options are taken with underscores", async () => {
  for (const name of ["import", "export", "redact", "archive", "extract", "cleanup"]) {
    const { code, stdout } = await trace(name, "--help");
    expect(code).toBe(0);
    expect(stdout.toString()).toContain(`dsec trace ${name}`);
    expect(stdout.toString()).toContain("Examples:");
    expect(stdout.toString()).toContain("--json");
  }
  const { code, stdout } = await trace(
    "import",
    "--format=jsonl",
    "set.jsonl",
    "-o",
    "marked",
    "--state_changing",
    "look",
    "--json",
  );
  expect(code).toBe(0);
  expect(JSON.parse(stdout.toString())).toMatchObject([
    { trace_id: "e-1", file: "marked/e-1.trace", line: 1 },
    {},
    {},
  ]);
  expect((await trace("export", "marked/e-1.trace", "--format", "jsonl")).stdout.toString()).toContain(
    '"read_only":false',
  );
});

test("an input with a damaged line, or two records of one id, imports nothing", async () => {
  const lines = readFileSync(join(folder, "set.jsonl"), "utf8");
  writeFileSync(join(folder, "half.jsonl"), `${lines}{"id":\n`);
  const half = await trace("import", "--format", "jsonl", "half.jsonl", "-o", "none");
  expect(half).toMatchObject({ code: 1 });
  expect(half.stderr).toContain("error MALFORMED_JSON: half.jsonl:4: ");
  writeFileSync(join(folder, "twice.jsonl"), lines + lines);
  const twice = await trace("import", "--format", "jsonl", "twice.jsonl", "-o", "none");
  expect(twice.stderr).toMatch(/twice\.jsonl:4: id "e-1" was given at twice\.jsonl:1 already/);
  expect(existsSync(join(folder, "none"))).toBe(false);
  const missing = await trace("import", "--format", "jsonl", "no.jsonl", "-o", "none");
  expect(missing.stderr).toContain("no.jsonl cannot be read");
});

test("an input of which one trace cannot be written imports nothing, and its line is named", async () => {
  const lines = readFileSync(join(folder, "set.jsonl"), "utf8");
  const endless = { id: "e-4", steps: [{ kind: "tool", tool: "t", response: "ok", duration_ms: 1e300 }] };
  writeFileSync(join(folder, "endless.jsonl"), `${lines}${JSON.stringify(endless)}\n`);
  const refused = await trace("import", "--format", "jsonl", "endless.jsonl", "-o", "none");
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain("error INVALID_REQUEST: endless.jsonl:4: duration_us is 1e+303");
  expect(existsSync(join(folder, "none"))).toBe(false);
  // The last one's name is taken.
  mkdirSync(join(folder, "taken"));
  writeFileSync(join(folder, "taken", "e-3.trace"), "mine");
  const taken = await trace("import", "--format", "jsonl", "set.jsonl", "-o", "taken");
  expect(taken.stderr).toContain("error TRACE_EXISTS: taken/e-3.trace exists already");
  expect(readdirSync(join(folder, "taken"))).toEqual(["e-3.trace"]);
});

test("files that exist are not replaced", async () => {
  const before = readFileSync(join(traces, "e-1.trace"));
  const again = await trace("import", "--format", "jsonl", "set.jsonl", "-o", "traces");
  expect(again.code).toBe(1);
  expect(again.stderr).toContain("error TRACE_EXISTS: traces/e-1.trace exists already");
  expect(readFileSync(join(traces, "e-1.trace")).equals(before)).toBe(true);
});

test("traces go out into every format, one to standard output and many into a folder", async () => {
  for (const format of ["atif", "otlp", "chrome"]) {
    const one = await trace("export", "traces/e-1.trace", "--format", format);
    expect(one.code).toBe(0);
    expect(() => JSON.parse(one.stdout.toString())).not.toThrow();
    const { code } = await trace("export", "traces", "--format", format, "-o", format);
    expect(code).toBe(0);
    expect(readdirSync(join(folder, format))).toEqual(
      ["e-1", "e-2", "e-3"].map((name) => `${name}.${format}.json`),
    );
  }
  for (const format of ["atif", "otlp"]) {
    const back = await trace(
      "import",
      `${format}/e-2.${format}.json`,
      "--format",
      format,
      "-o",
      `${format}.trace`,
      "--json",
    );
    expect(back.code).toBe(0);
    const [{ digest }] = JSON.parse(back.stdout.toString());
    expect(
      readFileSync(join(folder, `${format}.trace`)).equals(readFileSync(join(traces, "e-2.trace"))),
    ).toBe(true);
    expect(digest).toMatch(/^sha256:/);
  }
  const lines = (await trace("export", "traces/*.trace", "--format", "jsonl")).stdout
    .toString()
    .trim()
    .split("\n");
  expect(lines.filter((line) => JSON.parse(line).type === "trace")).toHaveLength(3);
});

test("a redacted trace holds no mail address, names its original, and says how often", async () => {
  const done = await trace(
    "redact",
    "traces/e-1.trace",
    "-o",
    "public.trace",
    "--patterns",
    "email",
    "--pii_fields",
    "nothing",
    "--report",
  );
  expect(done.code).toBe(0);
  expect(done.stdout.toString()).toMatch(/^WHY {2,}TIMES\nemail +\d+\n/);
  const out = (await trace("export", "public.trace", "--format", "jsonl")).stdout.toString();
  expect(out).not.toContain("@mail.example");
  expect(out).toMatch(/"redacted_from_digest":"sha256:[0-9a-f]{64}"/);
  expect((await trace("validate", "public.trace")).code).toBe(0);
  writeFileSync(join(folder, "patterns.txt"), "# ours\nuser[0-9]\n");
  const own = await trace(
    "redact",
    "traces/e-1.trace",
    "-o",
    "own.trace",
    "--patterns",
    "patterns.txt",
    "--json",
  );
  expect(JSON.parse(own.stdout.toString()).counts["pattern 1"]).toBeGreaterThan(0);
  expect((await trace("redact", "traces/e-1.trace", "-o", "x.trace")).code).toBe(2);
  const bad = await trace("redact", "traces/e-1.trace", "-o", "x.trace", "--patterns", "(");
  expect(bad.stderr).toContain('pattern 1, "(", is neither built in');
  expect(existsSync(join(folder, "x.trace"))).toBe(false);
});

test("an archive gives its members back by name", async () => {
  expect((await trace("archive", "traces", "-o", "all.tar.zst")).code).toBe(0);
  const listed = await trace("extract", "all.tar.zst", "--list", "--json");
  expect(JSON.parse(listed.stdout.toString()).map(({ name }: { name: string }) => name)).toEqual([
    "e-1.trace",
    "e-2.trace",
    "e-3.trace",
  ]);
  expect((await trace("extract", "all.tar.zst", "e-2.trace", "-o", "out")).code).toBe(0);
  expect(readdirSync(join(folder, "out"))).toEqual(["e-2.trace"]);
  expect(readFileSync(join(folder, "out/e-2.trace")).equals(readFileSync(join(traces, "e-2.trace")))).toBe(
    true,
  );
  expect((await trace("extract", "all.tar.zst", "no.trace", "-o", "out")).stderr).toContain(
    'no member "no.trace"',
  );
  expect((await trace("extract", "all.tar.zst")).code).toBe(2);
  symlinkSync("traces/e-1.trace", join(folder, "link.trace"));
  expect((await trace("archive", "link.trace", "-o", "l.tar.zst")).stderr).toContain("link.trace is a link");
});

test("cleaning up says what went and how much, and refuses a folder that is a link", async () => {
  const runs = join(folder, "runs");
  mkdirSync(runs);
  for (const name of ["a", "b"]) {
    writeFileSync(join(runs, `${name}.trace`), "x".repeat(1500));
    utimesSync(join(runs, `${name}.trace`), 1_700_000_000, 1_700_000_000);
  }
  const dry = await trace("cleanup", "runs", "--older_than", "7d", "--keep_last", "1", "--dry_run");
  expect(dry.stdout.toString()).toBe("runs/b.trace\n");
  expect(dry.stderr).toContain("1 would be deleted, 1.5 KiB; 1 kept");
  expect(readdirSync(runs)).toHaveLength(2);
  const done = await trace("cleanup", "runs", "--older-than", "7d", "--keep-last", "1", "--json");
  expect(JSON.parse(done.stdout.toString())).toMatchObject({
    dry_run: false,
    bytes: 1500,
    kept: 1,
    deleted: [{ path: "runs/b.trace", size: 1500 }],
  });
  expect(readdirSync(runs)).toEqual(["a.trace"]);
  symlinkSync("runs", join(folder, "runs-link"));
  const link = await trace("cleanup", "runs-link/", "--keep-last", "0");
  expect(link.code).toBe(1);
  expect(link.stderr).toContain("runs-link/: it is a link or no folder");
  expect((await trace("cleanup", "runs")).code).toBe(2);
  expect((await trace("cleanup", "runs", "--older-than", "soon")).code).toBe(2);
});

test("an import that takes nothing fails, names its file and says what was expected", async () => {
  writeFileSync(join(folder, "nothing.json"), '{"resourceSpans":[{"scopeSpans":[]}]}');
  for (const json of [[], ["--json"]]) {
    const refused = await trace("import", "--format", "otlp", "nothing.json", "-o", "none", ...json);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(
      "error INVALID_REQUEST: nothing.json holds nothing to import: expected OTLP/JSON traces",
    );
    expect(refused.stdout.toString()).toContain(json.length === 0 ? "" : '"code": "INVALID_REQUEST"');
  }
  expect(existsSync(join(folder, "none"))).toBe(false);
});

test("an import says what it could not take as what it is, on the terminal and in JSON", async () => {
  const orphan = { role: "tool", tool_call_id: "gone", content: "x" };
  const odd = { type: "odd \u001b[31m", n: 1 };
  const lines = ["a", "b"].map((id) =>
    JSON.stringify({ id, messages: [{ role: "user", content: "hi" }, orphan, odd] }),
  );
  writeFileSync(join(folder, "cut.jsonl"), lines.join("\n"));
  const said = await trace("import", "--format", "openai-messages", "cut.jsonl", "-o", "cut");
  expect(said.code).toBe(0);
  expect(said.stderr).toMatch(/^2 of 2 records imported: 6 events, /m);
  expect(said.stderr).toContain(
    "cut.jsonl:1, message 2: an answer to a call that is not in the file, or was answered before, is kept as an observation, as it stands (2 in all)\n",
  );
  expect(said.stderr).toMatch(/cut\.jsonl:1, message 3: an item of type "odd .*\(2 in all\)\n/);
  expect(said.stderr).not.toContain("\u001b[31m");
  const told = await trace("import", "--format", "openai-messages", "cut.jsonl", "-o", "cut-2", "--json");
  expect(JSON.parse(told.stdout.toString())).toMatchObject(
    ["a", "b"].map((trace_id) => ({
      trace_id,
      notes: [
        { what: expect.stringContaining("an answer to a call"), count: 1, first: "message 2" },
        { what: expect.stringContaining("an item of type"), count: 1, first: "message 3" },
      ],
    })),
  );
  const checked = await trace("validate", "cut/a.trace", "cut/b.trace");
  expect(checked.code).toBe(0);
});
