import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { AXES, add, axisThatDoesNotFit, NO_RESOURCES, type Resources, subtract } from "#core/resources.ts";
import { measureCapacity, parseAvailableMemoryMb } from "#executor/capacity.ts";
import { OwnGroups } from "#executor/cgroups.ts";
import { Ledger } from "#executor/ledger.ts";

test("what is available counts, not what is free", () => {
  expect(parseAvailableMemoryMb("MemTotal: 8000 kB\nMemFree:  1024 kB\nMemAvailable:   4096 kB\n")).toBe(4);
  expect(() => parseAvailableMemoryMb("MemTotal: 8000 kB\n")).toThrow(/MemAvailable/);
});

test("this host has something on each axis but GPU memory; what is configured replaces what is measured", async () => {
  const directory = await mkdtemp(join(tmpdir(), "dsec-capacity-"));
  try {
    const groups = OwnGroups.find();
    const capacity = await measureCapacity(directory, groups);
    for (const axis of AXES) {
      if (axis === "gpu_memory_mb") expect(capacity[axis]).toBe(0);
      else expect(capacity[axis], axis).toBeGreaterThan(0);
    }
    expect(await readdir(directory)).toEqual(["disk-iops"]);
    // The measurement of the disk is kept: two starts offer the same.
    expect((await measureCapacity(directory, groups)).disk_iops).toBe(capacity.disk_iops);
    const configured = await measureCapacity(directory, groups, { cpu_cores: 0.5, gpu_memory_mb: 8192 });
    expect(configured).toMatchObject({ cpu_millis: 500, gpu_memory_mb: 8192, pids: expect.any(Number) });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

const CAPACITY: Resources = { ...NO_RESOURCES, cpu_millis: 4000, memory_mb: 4096, pids: 1000, disk_mb: 1000 };

test("however attempts come and go, what they have taken never passes the capacity, nor what is free what the host has", () => {
  const asked = fc.record({
    cpu_millis: fc.integer({ min: 10, max: 4000 }),
    memory_mb: fc.integer({ min: 4, max: 4096 }),
    gpu_memory_mb: fc.constant(0),
    disk_iops: fc.constant(0),
    network_mbps: fc.constant(0),
    pids: fc.integer({ min: 2, max: 1000 }),
    disk_mb: fc.integer({ min: 0, max: 1000 }),
  });
  const step = fc.oneof(
    fc.record({ act: fc.constant("take" as const), asked }),
    fc.record({ act: fc.constant("give" as const), at: fc.nat() }),
    // Also above the capacity, which is then no more for it.
    fc.record({
      act: fc.constant("host" as const),
      room: fc.record({
        memory_mb: fc.integer({ min: 0, max: 8192 }),
        disk_mb: fc.integer({ min: 0, max: 2000 }),
      }),
    }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let room = { memory_mb: 4096, disk_mb: 1000 };
      const ledger = new Ledger(CAPACITY, () => room);
      const taken: Resources[] = [];
      const left = () =>
        most(NO_RESOURCES, taken.reduce(subtract, least(CAPACITY, { ...CAPACITY, ...room })));
      for (const action of steps) {
        if (action.act === "host") room = action.room;
        else if (action.act === "take") {
          const isWithinCapacity =
            axisThatDoesNotFit(action.asked, taken.reduce(subtract, CAPACITY)) === undefined;
          const fits = axisThatDoesNotFit(action.asked, left()) === undefined;
          const can = ledger.take(action.asked);
          // Of two faults that of the gateway is the graver.
          expect(can).toBe(!isWithinCapacity ? "excessive" : fits ? "taken" : "short");
          if (can === "taken") taken.push(action.asked);
        } else if (taken.length > 0) {
          ledger.give(taken.splice(action.at % taken.length, 1)[0]!);
        }
        expect(axisThatDoesNotFit(taken.reduce(add, NO_RESOURCES), CAPACITY)).toBeUndefined();
        expect(ledger.free()).toEqual(left());
      }
    }),
  );
});

const each = (a: Resources, b: Resources, of: (x: number, y: number) => number) =>
  Object.fromEntries(AXES.map((axis) => [axis, of(a[axis], b[axis])])) as Resources;
const least = (a: Resources, b: Resources) => each(a, b, Math.min);
const most = (a: Resources, b: Resources) => each(a, b, Math.max);
