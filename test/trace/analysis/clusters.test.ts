import { expect, test } from "vitest";
import { cluster, type Featured, jaccardDistance } from "#trace/analysis/clusters.ts";
import { hintsOf } from "#trace/analysis/hints.ts";
import { Samples } from "#trace/analysis/samples.ts";

function trace(at: number, ...features: string[]): Featured {
  return { file: `${at}.trace`, group: `task-${at}`, features: new Set(features) };
}

test("the distance of two sets is one minus what they share of what either has", () => {
  expect(jaccardDistance(new Set(["a", "b", "c"]), new Set(["b", "c", "d"]))).toBe(0.5);
  expect(jaccardDistance(new Set(), new Set())).toBe(0);
  expect(jaccardDistance(new Set(["a"]), new Set())).toBe(1);
});

test("failures that are alike form clusters, named by what successful traces lack, and the odd one is noise", () => {
  const failed = [
    ...[1, 2, 3, 4].map((at) => trace(at, "shipping_status=null", "tool track", "error TIMEOUT")),
    ...[5, 6, 7].map((at) => trace(at, "balance=0", "tool pay")),
    trace(8, "tool dance", "tool sing"),
  ];
  const successful = [9, 10, 11, 12].map((at) => trace(at, "tool track", "tool pay", "tool sing"));
  const { clusters, noise } = cluster(failed, successful);
  expect(clusters.map(({ size }) => size)).toEqual([4, 3]);
  expect(clusters[0]!.label).toContain("shipping_status=null");
  expect(clusters[0]!.features.map(({ feature }) => feature)).not.toContain("tool track");
  expect(clusters[0]!.features[0]).toMatchObject({ in_cluster: 4, in_successful: 0, lift: 0.9 / 0.1 });
  expect(clusters[1]!.label).toBe("balance=0");
  expect(noise).toBe(1);
});

test("what only the attempts at one task have does not make them a cluster", () => {
  const failed = [1, 2, 3].map((at) => ({ ...trace(at, "email=a@b", `own=${at}`), group: "one task" }));
  const others = [4, 5, 6].map((at) => trace(at, "own=0"));
  const { clusters } = cluster([...failed, ...others], [trace(7, "tool track")]);
  expect(clusters.flatMap(({ features }) => features.map(({ feature }) => feature))).not.toContain(
    "email=a@b",
  );
});

test("nothing is said to be associated below twenty traces, or by chance", () => {
  const judged = (count: number) =>
    Array.from({ length: count }, (_, at) => {
      const failed = at % 2 === 0;
      return { ...trace(at, ...(failed ? ["x=null"] : []), ...(at % 3 === 0 ? ["noise"] : [])), failed };
    });
  expect(hintsOf([], judged(18)).hints).toEqual([]);
  const { hints } = hintsOf([], judged(40));
  expect(hints).toHaveLength(1);
  expect(hints[0]!.text).toBe(
    "x=null is associated with failure: 20 of 20 traces with it failed, and 0 of 20 without it (n=40, adjusted p=<0.0001)",
  );
});

test("percentiles of a million numbers are kept in bounded room and say of which they are", () => {
  const samples = new Samples();
  for (let at = 1; at <= 1_000_000; at++) samples.add(at);
  const { count, every, p50, p99, max } = samples.summary();
  expect({ count, every, max }).toEqual({ count: 1_000_000, every: 16, max: 1_000_000 });
  expect(Math.abs(p50! - 500_000)).toBeLessThan(50);
  expect(Math.abs(p99! - 990_000)).toBeLessThan(50);
});
