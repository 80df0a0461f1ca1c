import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { Spool, type SpooledBody } from "#executor/egress/spool.ts";

let directory: string;
let spool: Spool;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "dsec-spool-"));
  spool = new Spool(directory);
});
afterEach(() => rmSync(directory, { recursive: true }));

async function* parts(count: number, bytes: number): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < count; i++) yield new Uint8Array(bytes).fill(i);
}

async function joined(body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const part of body) all.push(part);
  return Buffer.concat(all);
}

async function bytesIn({ content }: SpooledBody): Promise<Buffer> {
  return content instanceof Uint8Array ? Buffer.from(content) : Buffer.from(await content.arrayBuffer());
}

const digestOf = (bytes: Buffer) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

test.each([
  [0, 0],
  [1, 1],
  [7, 1000],
  [1, LIMITS.callBodyKeptBytes],
])("a body of %i × %i bytes is kept in memory, whole and with its digest", async (count, bytes) => {
  const body = await spool.take(parts(count, bytes));
  expect(body.content).toBeInstanceOf(Uint8Array);
  const content = await bytesIn(body);
  expect(content.length).toBe(count * bytes);
  expect(body.digest).toBe(digestOf(content));
  expect(readdirSync(directory)).toEqual([]);
});

test("a larger body is in a private file, whole and in order, until it is dropped", async () => {
  const bodies = await Promise.all([
    spool.take(parts(50, 10_007)),
    spool.take(parts(3, LIMITS.callBodyKeptBytes)),
  ]);
  for (const [index, body] of bodies.entries()) {
    const content = await bytesIn(body);
    const expected = index === 0 ? parts(50, 10_007) : parts(3, LIMITS.callBodyKeptBytes);
    expect(content.equals(await joined(expected))).toBe(true);
    expect(body.digest).toBe(digestOf(content));
  }
  expect(readdirSync(directory)).toHaveLength(2);
  await Promise.all(bodies.map((body) => body.drop()));
  expect(readdirSync(directory)).toEqual([]);
});

test("a body that breaks off leaves nothing behind", async () => {
  async function* breaking() {
    yield* parts(3, LIMITS.callBodyKeptBytes);
    throw new Error("the client left");
  }
  await expect(spool.take(breaking())).rejects.toThrow("the client left");
  expect(readdirSync(directory)).toEqual([]);
});

test("bodies beyond the bound of one and of all together are refused, and room that is dropped is room again", async () => {
  // The bounds themselves, without writing a gigabyte: parts that say they are larger than they are.
  const claim = (bytes: number) =>
    (async function* () {
      yield Object.defineProperty(new Uint8Array(1), "length", { value: bytes });
    })();
  const refused = { code: "BODY_TOO_LARGE" };
  await expect(spool.take(claim(LIMITS.callBodyBytes + 1))).rejects.toMatchObject(refused);
  const held: SpooledBody[] = [];
  for (let bytes = 0; bytes < LIMITS.egressSpoolBytes; bytes += LIMITS.callBodyBytes) {
    held.push(await spool.take(claim(LIMITS.callBodyBytes)));
  }
  await expect(spool.take(parts(1, 1))).rejects.toMatchObject(refused);
  await held[0]!.drop();
  expect(await bytesIn(await spool.take(parts(1, 1)))).toEqual(Buffer.from([0]));
});
