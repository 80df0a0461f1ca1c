import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { EVENT_TYPES } from "#trace/events/event.ts";
import { chosenSeed, Random } from "../events/random-events.ts";
import { expectSame, made, opened, randomBodies } from "./made.ts";

const HERE = import.meta.dirname;
const PROTO = join(HERE, "../../../proto");
const folder = mkdtempSync(join(tmpdir(), "dsec-trace-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The reader that was written from the format's text alone; it fails where a digest or the chain is wrong. */
function theirs(bytes: Uint8Array): unknown[] {
  const path = join(folder, "made.trace");
  writeFileSync(path, bytes);
  const words = [
    join(HERE, "read_trace.py"),
    join(PROTO, "trace.proto"),
    join(PROTO, "trace-1.dictionary"),
    path,
  ];
  return linesOf(execFileSync("/usr/bin/python3", words, { maxBuffer: 1 << 28, stdio: "pipe" }).toString());
}

/** Our reader, shown as theirs shows it. */
async function ours(bytes: Uint8Array): Promise<unknown[]> {
  const lines: unknown[] = [];
  for (const segment of (await opened(bytes)).segments) {
    await segment.verify();
    lines.push({ header: segment.header, events: segment.count, chain_head: segment.chainHead });
    for await (const event of segment.events()) lines.push(shown(event));
  }
  return linesOf(lines.map((line) => JSON.stringify(line)).join("\n"));
}

/** Without what is absent: a file stays what it was when later fields are added to its messages. */
function linesOf(text: string): unknown[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line, (_, value) => value ?? undefined));
}

/** Doubles to the bit, and bytes, as hexadecimal. */
function shown(value: unknown, name = ""): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  if (Array.isArray(value)) return value.map((item) => shown(item, name));
  if (typeof value === "number" && DOUBLES.has(name)) {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleBE(value);
    return { double: bytes.toString("hex") };
  }
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, shown(item, name)]));
}

const DOUBLES = new Set([
  "logprob",
  "top_logprobs",
  "log_sum_exp",
  "value",
  "weight",
  "weight_change",
  "product",
  "sum",
]);

test("the golden file of version 1 is read as it was when it was made, by both readers", async () => {
  const golden = readFileSync(join(HERE, "golden-v1.trace"));
  const expected = linesOf(readFileSync(join(HERE, "golden-v1.jsonl"), "utf8"));
  expectSame(await ours(golden), expected, "ours");
  expectSame(theirs(golden), expected, "theirs");
  const types = new Set(expected.map((line) => (line as { type?: string }).type));
  for (const type of EVENT_TYPES) expect(types).toContain(type);
});

test("the dictionary of version 1 is the one that the text of the format names, for files of that version need it for ever", () => {
  const text = readFileSync(join(HERE, "../../../docs/trace-format.md"), "utf8");
  const dictionary = readFileSync(join(PROTO, "trace-1.dictionary"));
  expect(text).toContain(createHash("sha256").update(dictionary).digest("hex"));
  expect(text).toContain(`id ${dictionary.readUInt32LE(4)}`);
  expect(text).toContain(`${dictionary.length.toLocaleString("en")} bytes`);
});

test("a reader that was written from the text of the format alone agrees with ours on any trace", async () => {
  const seed = chosenSeed();
  const random = new Random(seed);
  for (const options of [{}, { flushEvery: 1 }, { flushEvery: 17 }, { flushEvery: 40, sealed: false }]) {
    const bytes = made(randomBodies(random, 300), options);
    expectSame(await ours(bytes), theirs(bytes), `seed ${seed}`);
  }
});

test("the independent reader refuses what was changed", () => {
  const golden = readFileSync(join(HERE, "golden-v1.trace"));
  for (const at of [30, 500, 2500, golden.length - 200]) {
    const changed = Uint8Array.from(golden);
    changed[at]! ^= 4;
    expect(() => theirs(changed), `byte ${at}`).toThrow();
  }
});
