import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { DRAIN_GRACE_MS, FAREWELL_MS } from "#executor/main.ts";

const unit = new Map(
  [
    ...readFileSync(new URL("../../setup/dsec-executor.service", import.meta.url), "utf8").matchAll(
      /^(\w+)=(.*)$/gm,
    ),
  ].map(([, name, value]) => [name!, value!]),
);

test("a stop of the service tells Node alone, and waits until a drain has had its time", () => {
  expect(unit.get("KillMode")).toBe("mixed");
  const minutes = Number(/^(\d+)min$/.exec(unit.get("TimeoutStopSec")!)?.[1]);
  expect(minutes * 60_000).toBeGreaterThanOrEqual(DRAIN_GRACE_MS + 6 * FAREWELL_MS);
});

test("the service hands its group over, and bounds neither processes nor what one out of memory ends", () => {
  expect(Object.fromEntries(unit)).toMatchObject({
    Delegate: "yes",
    TasksMax: "infinity",
    OOMPolicy: "continue",
    LimitNOFILE: "1048576",
  });
});
