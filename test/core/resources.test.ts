import fc from "fast-check";
import { expect, test } from "vitest";
import {
  AXES,
  axisThatDoesNotFit,
  INSUFFICIENT,
  NO_RESOURCES,
  neverFits,
  type Resources,
} from "#core/resources.ts";
import { fromWire, ResourcesSchema, toWire } from "#core/wire/common.ts";

const vector: fc.Arbitrary<Resources> = fc.record(
  Object.fromEntries(AXES.map((axis) => [axis, fc.integer({ min: 0, max: 1000 })])) as Record<
    keyof Resources,
    fc.Arbitrary<number>
  >,
);

test("a request is refused only when no single executor holds it, and the axis named is one that fails", () => {
  fc.assert(
    fc.property(vector, fc.array(vector, { minLength: 1, maxLength: 5 }), (asked, capacities) => {
      const fitsSomewhere = capacities.some((capacity) => axisThatDoesNotFit(asked, capacity) === undefined);
      const refusal = neverFits(asked, capacities);
      expect(refusal === undefined).toBe(fitsSomewhere);
      if (refusal) {
        expect(capacities.some((capacity) => asked[refusal.axis] > capacity[refusal.axis])).toBe(true);
        expect(refusal.largest).toBe(Math.max(...capacities.map((capacity) => capacity[refusal.axis])));
      }
    }),
  );
});

test("every axis has its own refusal code", () => {
  const big = {
    cpu_millis: 8,
    memory_mb: 8,
    gpu_memory_mb: 8,
    disk_iops: 8,
    network_mbps: 8,
    pids: 8,
    disk_mb: 8,
  };
  const codes = AXES.map((axis) => INSUFFICIENT[neverFits({ ...NO_RESOURCES, [axis]: 9 }, [big])!.axis]);
  expect(new Set(codes).size).toBe(AXES.length);
});

test("thousandths of a core survive the wire exactly", () => {
  for (let millis = 0; millis <= 4000; millis++) {
    const wire = ResourcesSchema.parse(toWire({ ...NO_RESOURCES, cpu_millis: millis }));
    expect(fromWire(JSON.parse(JSON.stringify(wire))).cpu_millis).toBe(millis);
  }
  expect(ResourcesSchema.safeParse(toWire({ ...NO_RESOURCES, cpu_millis: 0.5 })).success).toBe(false);
});
