/** The ring under producers that are threads and processes of their own, and one of them killed. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Ring, RingCollector } from "#native/index.ts";
import { NATIVE_PROGRAMS } from "./sandboxes.ts";

const RING_BYTES = 16 * 1024;

test("a tiny ring flooded by threads of several processes loses no byte, and says that they had to wait", async () => {
  const ring = new Ring(RING_BYTES);
  const collector = new RingCollector(ring.descriptor, RING_BYTES / 2);
  const processes = 3;
  const threads = 2;
  const records = 20_000;
  const children = Array.from({ length: processes }, (_, i) => producer(ring, i * threads, records, threads));
  const next = new Map<number, number>();
  await collect(collector, children, (slot, number, bytes) => {
    checkRecord(next, slot, number, bytes);
  });
  expect(children.map((child) => child.exitCode)).toEqual([0, 0, 0]);
  expect([...next.values()]).toEqual(Array(processes * threads).fill(records));
  const counters = ring.counters();
  expect(counters).toMatchObject({ produced: 120_000, collected: 120_000 });
  expect(counters.waits).toBeGreaterThan(0);
  expect(counters.waitedUs).toBeGreaterThan(0);
});

test("a producer that is killed in the midst leaves whole records and keeps nobody else from the ring", async () => {
  for (let round = 0; round < 5; round++) {
    const ring = new Ring(RING_BYTES);
    const collector = new RingCollector(ring.descriptor, RING_BYTES / 2);
    const victim = producer(ring, 0, 1e12, 2);
    const other = producer(ring, 2, 5_000);
    const next = new Map<number, number>();
    let collected = 0;
    await collect(collector, [victim, other], (slot, number, bytes) => {
      if (++collected === 3_000 + round * 777) victim.kill("SIGKILL");
      checkRecord(next, slot, number, bytes);
    });
    expect(victim.signalCode).toBe("SIGKILL");
    expect([other.exitCode, next.get(2)]).toEqual([0, 5_000]);
    const { produced, collected: taken } = ring.counters();
    expect(taken).toBe(collected);
    // Killed between a record and its count, it leaves the record uncounted.
    expect(taken - produced).toBeOneOf([0, 1]);
  }
});

test("a producer that waits for room is told when nobody collects any more", async () => {
  const ring = new Ring(RING_BYTES);
  const collector = new RingCollector(ring.descriptor, RING_BYTES / 2);
  const waiting = producer(ring, 0, 1_000);
  while (ring.counters().producedBytes < RING_BYTES / 2) await sleep(1);
  await sleep(20);
  expect(waiting.exitCode).toBe(null);
  collector.close();
  expect(await once(waiting, "exit")).toEqual([4, null]);
  expect(ring.push(0, 0, 0, new Uint8Array())).toBe(false);
});

test("a collector gathers until there is much, an urgent record comes, or its time is over", () => {
  const ring = new Ring(RING_BYTES);
  const collector = new RingCollector(ring.descriptor, RING_BYTES / 2);
  expect(collector.wait(1, 1)).toBe(false);
  ring.push(1, 2, 2 ** 40 + 1, Buffer.from("small"));
  expect(collector.wait(1024, 1)).toBe(true);
  ring.push(65_535, 65_535, 0, Buffer.alloc(0), true);
  const fromMs = performance.now();
  expect(collector.wait(RING_BYTES / 4, 60_000)).toBe(true);
  expect(performance.now() - fromMs).toBeLessThan(30_000);
  expect([...collector.drain()].map((record) => ({ ...record, bytes: String(record.bytes) }))).toEqual([
    { slot: 1, kind: 2, timeUs: 2 ** 40 + 1, bytes: "small" },
    { slot: 65_535, kind: 65_535, timeUs: 0, bytes: "" },
  ]);
  expect([...collector.drain()]).toEqual([]);
});

test("a record that is larger than a quarter of the ring is refused, naming the bound", () => {
  const ring = new Ring(RING_BYTES);
  const largest = RING_BYTES / 4 - 16;
  expect(ring.push(0, 0, 0, Buffer.alloc(largest))).toBe(true);
  expect(() => ring.push(0, 0, 0, Buffer.alloc(largest + 1))).toThrow(
    `${largest + 1} bytes, at most ${largest}`,
  );
  expect(() => new Ring(1000)).toThrow("1000 bytes");
});

/** See ring_producer.cc. */
function producer(ring: Ring, slot: number, records: number, threads = 1): ChildProcess {
  const descriptor = ring.descriptor;
  const stdio = ["ignore", "inherit", "inherit", descriptor] as const;
  return spawn(`${NATIVE_PROGRAMS}/ring_producer`, ["3", String(slot), String(records), String(threads)], {
    stdio: [...stdio],
  });
}

/** Until all of them have ended and the ring is empty. */
async function collect(
  collector: RingCollector,
  children: ChildProcess[],
  onRecord: (slot: number, number: number, bytes: Buffer) => void,
): Promise<void> {
  const ended = () => children.every((child) => child.exitCode !== null || child.signalCode !== null);
  for (;;) {
    const wasEnded = ended();
    let any = false;
    for (const { slot, kind, timeUs, bytes } of collector.drain()) {
      any = true;
      if (kind !== timeUs % 65_536) throw new Error(`record ${timeUs} of ${slot} is of kind ${kind}`);
      onRecord(slot, timeUs, bytes as Buffer);
    }
    if (!any && wasEnded) return;
    // The children's ends are told by the event loop.
    if (any) await new Promise(setImmediate);
    else await sleep(1);
  }
}

/** Without `expect`, which takes longer than all the rest. */
function checkRecord(next: Map<number, number>, slot: number, number: number, bytes: Buffer): void {
  const expected = next.get(slot) ?? 0;
  next.set(slot, expected + 1);
  if (number !== expected) throw new Error(`slot ${slot}: record ${number} came in place of ${expected}`);
  if (!bytes.equals(expectedBytes(slot, number)))
    throw new Error(`slot ${slot}: record ${number} has changed`);
}

function expectedBytes(slot: number, number: number): Buffer {
  const bytes = Buffer.alloc((number * 7919 + slot) % 901);
  for (let at = 0; at < bytes.length; at++) bytes[at] = (number + slot + at) & 0xff;
  return bytes;
}
