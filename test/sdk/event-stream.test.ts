import fc from "fast-check";
import { expect, test } from "vitest";
import { type ServerEvent, serverEvents } from "#sdk/event-stream.ts";

/** A body that arrives in the given pieces. */
function body(pieces: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
}

async function parse(text: string, cuts: number[] = []): Promise<(ServerEvent | "alive")[]> {
  const bytes = new TextEncoder().encode(text);
  const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  const pieces = [...at, bytes.length].map((end, i) => bytes.slice(i === 0 ? 0 : at[i - 1], end));
  const events: (ServerEvent | "alive")[] = [];
  for await (const event of serverEvents(body(pieces))) events.push(event);
  return events;
}

test("fields, comments, several data lines and every line ending are read as the HTML standard says", async () => {
  expect(await parse("id: 1\nevent: stdout\ndata: a\ndata:b\n\n")).toEqual([
    { id: "1", event: "stdout", data: "a\nb" },
  ]);
  expect(await parse(": still here\n\n")).toEqual(["alive"]);
  expect(await parse("data: x\r\n\r\ndata: y\r\rdata: z\n\n")).toEqual(
    ["x", "y", "z"].map((data) => ({ id: "", event: "message", data })),
  );
  expect(await parse("data:  two blanks\nunknown: 1\nretry: 5\n\n")).toEqual([
    { id: "", event: "message", data: " two blanks" },
  ]);
  // the id stays for later events; one with U+0000 is no id
  expect(await parse("id: 7\ndata: a\n\nid: 8\0\ndata: b\n\n")).toEqual([
    { id: "7", event: "message", data: "a" },
    { id: "7", event: "message", data: "b" },
  ]);
});

test("an event that is cut off by the end of the body is dropped", async () => {
  expect(await parse("data: whole\n\ndata: half")).toEqual([{ id: "", event: "message", data: "whole" }]);
  expect(await parse("data: whole\n\ndata: half\n")).toEqual([{ id: "", event: "message", data: "whole" }]);
});

test("where the network cuts the bytes makes no difference", async () => {
  const part = fc.constantFrom("data: ä€😀", "id: 3", "event: state", ": hello", "data", "data:", "other: 1");
  const ending = fc.constantFrom("\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\r\r");
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(part, ending), { maxLength: 12 }),
      fc.array(fc.nat(400), { maxLength: 30 }),
      async (lines, cuts) => {
        const text = lines.map(([line, end]) => line + end).join("");
        expect(await parse(text, cuts)).toEqual(await parse(text));
      },
    ),
  );
});

test("an endless line ends the stream instead of filling the memory", async () => {
  let sent = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent += 1 << 20;
      controller.enqueue(new Uint8Array(1 << 20).fill(97));
    },
  });
  await expect(async () => {
    for await (const _ of serverEvents(endless));
  }).rejects.toThrow(/longer than/);
  expect(sent).toBeLessThan(16 << 20);
});
