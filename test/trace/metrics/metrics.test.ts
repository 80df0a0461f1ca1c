import { expect, test } from "vitest";
import { growth, LINEAR_BELOW } from "#test/support/growth.ts";
import { call, failed, type Made, madeTrace, remember } from "#test/trace/made-trace.ts";
import { MEASURE_DEFAULTS, measure } from "#trace/analysis/metrics.ts";
import type { Token } from "#trace/events/event.ts";
import { compareTokens, logitDivergence } from "#trace/metrics/logit-divergence.ts";
import { longestCommon, planStepF1 } from "#trace/metrics/plan-steps.ts";
import { rewardFault, rewardShares } from "#trace/metrics/rewards.ts";
import { adjustedP, fisherP, percentile, spearman } from "#trace/metrics/statistics.ts";

async function metricsOf(events: Made[], labels: unknown = null) {
  const labels_json = labels === null ? null : typeof labels === "string" ? labels : JSON.stringify(labels);
  return (await measure(await madeTrace(events, { labels_json }), "made.trace", MEASURE_DEFAULTS)).row
    .metrics;
}

async function consistencyOf(events: Made[]) {
  return (await measure(await madeTrace(events), "made.trace", MEASURE_DEFAULTS)).facts.memory;
}

test("JSON nested deeper than any stack is measured like other JSON", async () => {
  const deep = (inner: string) => `${"[".repeat(50_000)}${inner}${"]".repeat(50_000)}`;
  const labels = `{"expected_actions":[{"tool":"put","args":${deep("1")}}]}`;
  const made = (inner: string) => [
    ...call(1, "put", { arguments: deep(inner) }),
    remember("tree", deep("2")),
    remember("tree", deep("3"), deep("2")),
  ];
  expect(await metricsOf(made(" 1 "), labels)).toMatchObject({
    tool_call_accuracy: 1,
    memory_consistency: 1,
  });
  expect(await metricsOf(made("4"), labels)).toMatchObject({ tool_call_accuracy: 0 });
});

test("shares of the reward take time by the number of components, whatever their names", async () => {
  const made = (length: number) =>
    Array.from({ length }, (_, at) => {
      const product = at % 2;
      const names = Array.from({ length: 64 }, (_, place) => `${at}-${place}`);
      return {
        components: names.map((name) => ({ name, value: product, weight: 1, product, weight_change: null })),
        sum: 64 * product,
      };
    });
  const rewards = made(2_000);
  rewards[1]!.components[0]!.name = "__proto__";
  const shares = new Map(Object.entries(rewardShares(rewards)!));
  expect(await growth(2_000, (count) => rewardShares(made(count)))).toBeLessThan(LINEAR_BELOW);
  expect(shares.size).toBe(128_000);
  expect(shares.get("__proto__")).toBeCloseTo(1 / 64_000, 12);
  expect([...shares.values()].reduce((sum, share) => sum + share, 0)).toBeCloseTo(1, 9);
});

test("where nobody says which tools change state, answers that tell of what is changed or new do, else every call counts", async () => {
  const told = (
    number: number,
    tool: string,
    args: string,
    output: string,
    writes: [string, string | null][],
  ) => [
    ...call(number, tool, { arguments: args, output }),
    ...writes.map(([key, old]): Made => {
      const write = {
        type: "memory_write",
        op: "put",
        namespace: "answers",
        key,
        version: number,
        call: number,
      } as const;
      return { ...write, old: old === null ? null : { value_json: old }, new: { value_json: "1" } };
    }),
  ];
  const look = told(1, "look", '{"order_id":"A1"}', '{"paid":false}', [["order/A1/paid", null]]);
  const events = [
    ...look,
    ...told(2, "pay", '{"order_id":"A1"}', '{"paid":true}', [["order/A1/paid", "false"]]),
    ...told(3, "order", '{"thing":"cup"}', '{"order_id":"B2"}', [["order/B2/order_id", null]]),
    ...told(4, "look", '{"order_id":"A1"}', '{"paid":true}', []),
  ];
  const of = async (events: Made[], labels: object) => {
    const segment = await madeTrace(events, { labels_json: JSON.stringify(labels) });
    const { row, accuracyNote } = await measure(segment, "made.trace", MEASURE_DEFAULTS);
    return [row.metrics.tool_call_accuracy, accuracyNote];
  };
  const expected_actions = [
    { tool: "pay", args: { order_id: "A1" } },
    { tool: "order", args: { thing: "cup" } },
  ];
  expect(await of(events, { expected_actions })).toEqual([
    1,
    expect.stringMatching(/the calls of order, pay: nothing/),
  ]);
  expect(await of(look, { expected_actions: [] })).toEqual([
    0,
    expect.stringMatching(/every tool.*--state-changing/),
  ]);
  expect(await of(look, { expected_actions: [], read_only_tools: ["look"] })).toEqual([1, null]);
  expect(await of(look, {})).toEqual([null, null]);
});

test("accuracy is the multiset match of state-changing calls that did not err", async () => {
  const write = { start: { read_only: false } };
  const made = [
    ...call(1, "look", { start: { read_only: true } }),
    ...call(2, "pay", { arguments: '{"b":1.0,"a":"x"}', ...write }),
    ...call(3, "pay", { arguments: '{"a":"x","b":1}', ...write }),
    ...call(4, "pay", { arguments: '{"a":"y"}', ...write, end: { is_error: true } }),
    ...call(5, "pay", { arguments: '{"a":"z"}', ...write, end: { state: "timed_out" } }),
  ];
  const gold = (...actions: unknown[]) => ({ expected_actions: actions });
  const pay = { tool: "pay", args: { a: "x", b: 1 } };
  // member order and 1.0 do not matter; of two equal calls one is expected
  expect((await metricsOf(made, gold(pay))).tool_call_accuracy).toBeCloseTo(2 / 3, 12);
  expect((await metricsOf(made, gold(pay, pay))).tool_call_accuracy).toBe(1);
  expect((await metricsOf(made, gold(pay, pay, { name: "look", arguments: {} }))).tool_call_accuracy).toBe(1);
  expect((await metricsOf(made, gold({ tool: "pay", args: { a: "y" } }))).tool_call_accuracy).toBe(0);
  expect((await metricsOf(call(1, "look", { start: { read_only: true } }), gold())).tool_call_accuracy).toBe(
    1,
  );
  expect((await metricsOf(made)).tool_call_accuracy).toBe(null);
  const metrics = await metricsOf(made);
  expect(metrics.tool_call_success).toBeCloseTo(3 / 5, 12);
  expect(metrics.error_rate).toBeCloseTo(2 / 5, 12);
  expect(await metricsOf([])).toMatchObject({ error_rate: null, tool_call_success: null });
});

test("arguments that differ past 2^53 are two calls, and those not kept are known by their digest", async () => {
  const labels = '{"expected_actions":[{"tool":"pay","args":{"id":9007199254740993}}]}';
  const paid = (id: string) => call(1, "pay", { arguments: `{"id":${id}}` });
  expect((await metricsOf(paid("9007199254740993"), labels)).tool_call_accuracy).toBe(1);
  expect((await metricsOf(paid("9007199254740992"), labels)).tool_call_accuracy).toBe(0);
  // SHA-256 of {"a":1}
  const digest = "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862";
  const unshown = call(1, "pay", { start: { arguments_json: null, arguments_digest: digest } });
  const expected = { expected_actions: [{ tool: "pay", args: { a: 1 } }] };
  expect((await metricsOf(unshown, expected)).tool_call_accuracy).toBe(1);
});

test("a plan is scored by its longest common subsequence", () => {
  expect(planStepF1(["a", "b", "c"], ["a", "c", "d"])).toBeCloseTo(4 / 6, 12);
  expect(planStepF1([], [])).toBe(1);
  expect(planStepF1([], ["a"])).toBe(0);
  expect(longestCommon(["a", "b", "a", "c"], ["b", "a", "c"])).toEqual([
    [1, 0],
    [2, 1],
    [3, 2],
  ]);
});

test("memory is consistent as long as changes, hashes, types, origins and nulls hang together", async () => {
  const good = [
    remember("status", '"new"'),
    remember("status", '"sent"', '"new"'),
    remember("status", null, '"sent"'),
  ];
  expect(await consistencyOf(good)).toMatchObject({ value: 1, violations: 0, broken: false });
  expect(await consistencyOf([])).toMatchObject({ value: null, checks: 0 });

  const toNull = [
    ...call(1, "track", { output: "Error" }),
    remember("s", '"a"'),
    remember("s", "null", '"a"'),
  ];
  expect(await consistencyOf(toNull)).toMatchObject({ violations: 1, broken: false });
  const saidNull = [
    remember("s", '"a"'),
    ...call(1, "track", { output: { s: null } }),
    remember("s", "null", '"a"'),
  ];
  expect(await consistencyOf(saidNull)).toMatchObject({ violations: 0 });

  const retyped = await consistencyOf([remember("n", "1"), remember("n", '"1"', "1")]);
  expect(retyped.examples).toEqual([{ seq: 2, what: "n: number became string" }]);
  const nobody = await consistencyOf([{ ...remember("n", "1"), origin: null } as Made]);
  expect(nobody.examples[0]!.what).toContain("nobody says");

  const torn = await consistencyOf([remember("n", "1"), remember("n", "3", "2")]);
  expect(torn).toMatchObject({ value: 0, broken: true });
  const snapshot = (entries_json: string): Made => {
    return {
      type: "memory_snapshot",
      namespace: "memory",
      version: 1,
      state_digest: digest("a"),
      entries_json,
    };
  };
  expect(await consistencyOf([remember("n", "1"), snapshot('{"n":1.0}')])).toMatchObject({ value: 1 });
  expect(await consistencyOf([remember("n", "1"), snapshot('{"n":2}')])).toMatchObject({ value: 0 });
  expect(await consistencyOf([remember("n", "1"), snapshot("{}")])).toMatchObject({ value: 0 });

  const hashed = (before: string, after: string) => (n: number) =>
    call(n, "t", { start: { memory_digest: digest(before) }, end: { memory_digest: digest(after) } });
  expect(await consistencyOf([...hashed("a", "b")(1), ...hashed("b", "b")(2)])).toMatchObject({ value: 1 });
  expect(await consistencyOf([...hashed("a", "b")(1), ...hashed("c", "c")(2)])).toMatchObject({ value: 0 });
  // a recorded write explains another digest
  const written = [...hashed("a", "b")(1), remember("n", "1"), ...hashed("c", "c")(2)];
  expect(await consistencyOf(written)).toMatchObject({ value: 1 });
  const unrecorded = [remember("n", "1"), failed("changed", { code: "MEMORY_CHANGED_UNRECORDED" })];
  expect(await consistencyOf(unrecorded)).toMatchObject({ value: 0 });
  // What nobody could look at in the end is not known to hang together.
  const unchecked = [remember("n", "1"), failed("away", { code: "MEMORY_UNCHECKED" })];
  expect(await consistencyOf(unchecked)).toMatchObject({ value: 0.5, broken: false });
});

test("logit divergence is a lower bound over shared candidates and one bin for all else", () => {
  const p = token(1, [1, 0.5], [2, 0.3], [3, 0.1]);
  const q = token(1, [1, 0.25], [2, 0.25], [4, 0.25]);
  const expected = 0.5 * Math.log(2) + 0.3 * Math.log(0.3 / 0.25) + 0.2 * Math.log(0.2 / 0.5);
  const divergence = logitDivergence(p, q)!;
  expect(divergence.value).toBeCloseTo(expected, 12);
  expect(divergence.tail.p).toBeCloseTo(0.1, 12);
  expect(divergence.tail.q).toBeCloseTo(0.25, 12);
  expect(logitDivergence(p, p)!.value).toBe(0);
  expect(logitDivergence(p, token(1))).toBe(null);
  // against the whole distributions, which the lists are the top of
  const wholeP = [0.5, 0.3, 0.1, 0.06, 0.04];
  const wholeQ = [0.25, 0.25, 0.2, 0.25, 0.05];
  const whole = wholeP.reduce((sum, value, at) => sum + value * Math.log(value / wholeQ[at]!), 0);
  expect(divergence.value).toBeLessThanOrEqual(whole);
});

test("tokens are compared only while both were asked for the same text", () => {
  const a = [token(1, [1, 0.9], [2, 0.1]), token(1, [1, 0.9], [2, 0.1]), token(9, [9, 1])];
  const b = [token(1, [1, 0.9], [2, 0.1]), token(2, [1, 0.1], [2, 0.9]), token(8, [8, 1])];
  const compared = compareTokens(a, b)!;
  // the second tokens differ, so the third ones follow on different texts
  expect(compared).toMatchObject({ tokens: 2, over_threshold: 1, max: { at: 1 } });
  expect(compared.max.value).toBeGreaterThan(1.7);
  expect(compareTokens(a, b, 2)!.over_threshold).toBe(0);
  expect(compareTokens([], b)).toBe(null);
});

test("shares of a reward add up to one, and wrong sums are told", () => {
  const reward = (x: number, y: number) => ({
    components: [part("x", x, 2), part("y", y, 1)],
    sum: 2 * x + y,
  });
  const shares = rewardShares([reward(1, 0), reward(2, 1), reward(0, 5), reward(3, 3)])!;
  expect(shares.x! + shares.y!).toBeCloseTo(1, 12);
  expect(rewardShares([reward(1, 1), reward(1, 1)])).toBe(null);
  expect(rewardFault(reward(0.1, 0.2))).toBe(null);
  expect(rewardFault({ ...reward(1, 1), sum: 4 })).toContain("sum up to 3, not to 4");
  expect(rewardFault({ components: [{ ...part("x", 1, 2), product: 3 }], sum: 3 })).toContain(
    "1 × 2 is not 3",
  );
});

test("statistics agree with values computed elsewhere", () => {
  // ranks 1 2.5 2.5 4 5 and 1 2 3.5 5 3.5: 7.25/√(9.5·9.5)
  expect(spearman([1, 2, 2, 4, 5], [5, 6, 7, 8, 7]).rho).toBeCloseTo(0.763158, 6);
  expect(spearman([1, 1, 1], [1, 2, 3])).toEqual({ rho: null, n: 3, p: null });
  expect(spearman([1, null, 3], [1, 2, null])).toMatchObject({ n: 1 });
  const rising = Array.from({ length: 20 }, (_, at) => at);
  expect(spearman(rising, rising)).toEqual({ rho: expect.closeTo(1, 12), n: 20, p: 1 / 10_000 });
  expect(spearman(rising.slice(1), rising.slice(1)).p).toBe(null);
  // by hand; the tables with exact binomial coefficients in Python
  expect(adjustedP([0.01, null, 0.04, 0.03, 0.02])).toEqual([0.04, null, 0.04, 0.04, 0.04]);
  expect(adjustedP([0.01, 0.5])).toEqual([0.02, 0.5]);
  expect(fisherP(3, 1, 1, 3)).toBeCloseTo(0.4857143, 6);
  expect(fisherP(10, 2, 3, 15)).toBeCloseTo(0.0005367241, 8);
  expect([0.5, 0.9, 0.99].map((share) => percentile([1, 2, 3, 4], share))).toEqual([2, 4, 4]);
});

function token(id: number, ...top: [id: number, probability: number][]): Token {
  return {
    id,
    logprob: 0,
    text: null,
    top_ids: top.map(([candidate]) => candidate),
    top_logprobs: top.map(([, probability]) => Math.log(probability)),
    top_texts: [],
    log_sum_exp: null,
  };
}

function part(name: string, value: number, weight: number) {
  return { name, value, weight, weight_change: null, product: value * weight };
}

function digest(of: string): `sha256:${string}` {
  return `sha256:${of.repeat(64)}`;
}
