import fc from "fast-check";
import { expect, test } from "vitest";
import { type ResultRow, resultTable } from "#cli/demo/board.ts";
import { byteCount, duration, plainLine, plainTextFilter, table } from "#cli/terminal.ts";

const encoder = new TextEncoder();

function plain(text: string | Uint8Array): string {
  return plainTextFilter()(typeof text === "string" ? encoder.encode(text) : text, true);
}

test("what a task prints cannot drive the terminal", () => {
  const attacks: [bytes: string, left: string][] = [
    ["\x1b[2J\x1b[Hgone", "gone"],
    ["\x1b[31mred\x1b[0m", "red"],
    ["\x1b]0;title\x07after", "after"],
    ["\x1b]52;c;cm0gLXJmIC8=\x1b\\after", "after"],
    ["\x1bP+q544e\x1b\\after", "after"],
    ["\x1b_Gf=100;AAAA\x1b\\after", "after"],
    ["\x9b2Jafter", "after"],
    ["\x9d0;title\x9cafter", "after"],
    ["\x1bc\x1b(0\x1b=after", "after"],
    ["real\rfake", "real\nfake"],
    ["two\r\nlines\n", "two\nlines\n"],
    ["a\bb\x07c\x00d\x7fe", "abcde"],
    ["safe \u202etxt.exe\u202c", "safe txt.exe"],
    ["\u2066isolated\u2069", "isolated"],
    ["tab\tand ä €", "tab\tand ä €"],
    // an unended string must not swallow the rest
    ["\x1b]0;never ended\nnext line", "\nnext line"],
    ["\x1b[38;5;\nnext line", "\nnext line"],
  ];
  for (const [given, left] of attacks) expect(plain(given), JSON.stringify(given)).toBe(left);
});

test("bytes that are no text become replacement characters, never control codes", () => {
  expect(plain(new Uint8Array([0x61, 0xff, 0xfe, 0x62]))).toBe("a\ufffd\ufffdb");
  expect(plain(new Uint8Array([0xe2, 0x82]))).toBe("\ufffd");
});

test("no bytes at all leave a control code, however they are cut", () => {
  const nasty = fc.array(
    fc.oneof(fc.constantFrom(0x1b, 0x9b, 0x5b, 0x5d, 0x07, 0x5c, 0x0d, 0x0a, 0xc2, 0x9d), fc.nat(255)),
    {
      maxLength: 60,
    },
  );
  fc.assert(
    fc.property(nasty, fc.array(fc.nat(60)), (bytes, cuts) => {
      const all = Uint8Array.from(bytes);
      const whole = plain(all);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
      expect(whole).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
      const filter = plainTextFilter();
      const at = [...new Set(cuts.map((cut) => cut % (all.length + 1)))].sort((a, b) => a - b);
      let pieces = "";
      let from = 0;
      for (const to of [...at, all.length]) {
        pieces += filter(all.slice(from, to));
        from = to;
      }
      expect(pieces + filter(new Uint8Array(), true)).toBe(whole);
    }),
    { numRuns: 2000 },
  );
});

test("a name from outside stays on its line", () => {
  expect(plainLine("  a\n\n\x1b[1mb\tc\r\nd ")).toBe("a b c d");
});

test("columns line up and numbers stand right", () => {
  const text = table(
    [{ title: "NAME" }, { title: "N", align: "right" }],
    [
      ["a", "10"],
      ["longer", "2"],
    ],
  );
  expect(text).toBe("NAME     N\na       10\nlonger   2");
});

test("a table gives way to a narrow terminal where it may, and never in what names a row", () => {
  const columns = [
    { title: "TASK" },
    { title: "END", leastWidth: 0 },
    { title: "CREATED", leastWidth: 0 },
    { title: "COMMAND", leastWidth: 8 },
  ];
  const rows = [
    ["task_01k", "exit 0", "2026-01-31T12:00", "python3 agent.py --all"],
    ["task_02k", "", "2026-02-01T12:00", "true"],
  ];
  const whole = table(columns, rows);
  expect(whole).toBe(
    "TASK      END     CREATED           COMMAND\n" +
      "task_01k  exit 0  2026-01-31T12:00  python3 agent.py --all\n" +
      "task_02k          2026-02-01T12:00  true",
  );
  const at = (room: number) => table(columns, rows, undefined, room).split("\n")[1];
  expect(table(columns, rows, undefined, 58)).toBe(whole);
  expect(at(57)).toBe("task_01k  exit 0  2026-01-31T12:00  python3 agent.py --a…");
  expect(at(44)).toBe("task_01k  exit 0  2026-01-31T12:00  python3…");
  expect(at(43)).toBe("task_01k  exit 0  python3 agent.py --all");
  expect(at(26)).toBe("task_01k  exit 0  python3…");
  expect(at(25)).toBe("task_01k  python3 agent.…");
  expect(at(17)).toBe("task_01k");
  expect(at(1)).toBe("task_01k");
  for (let room = 8; room < 60; room++) {
    const lines = table(columns, rows, undefined, room).split("\n");
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(room);
    expect(lines[2]).toMatch(/^task_02k/);
  }
});

test("the results of the examples fit the terminal, with what they prove", () => {
  const [time, end, attestation] = ["12.34 s", "SIGKILL", "DIGEST_MISMATCH"];
  const results: ResultRow[] = [
    { name: "never-end", state: "succeeded", time, end, attestation, asExpected: true },
    { name: "hello", state: "failed", time, end, attestation: "verified", asExpected: false },
  ];
  const at = (columns: number) => resultTable(results, { columns } as NodeJS.WriteStream);
  for (let columns = 26; columns < 90; columns++) {
    for (const line of at(columns).split("\n")) expect(line.length).toBeLessThanOrEqual(columns);
    expect(at(columns)).toMatch(/hello .*verified .*NO$/);
  }
  // into a pipe or a file it goes whole
  expect(at(0)).toBe(at(200));
});

test("amounts are written for people", () => {
  expect([0, 999, 1500, 61_000, 3_723_000].map(duration)).toEqual([
    "0 ms",
    "999 ms",
    "1.50 s",
    "1 m 01 s",
    "1 h 02 m",
  ]);
  expect([0, 1023, 1024, 5_000_000].map(byteCount)).toEqual(["0 B", "1023 B", "1.0 KiB", "4.8 MiB"]);
});
