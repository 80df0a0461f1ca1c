import { expect, test } from "vitest";
import { loadPolicy } from "#core/policy/compile.ts";
import { decide } from "#core/policy/decide.ts";
import type { Policy } from "#core/wire/policy.ts";
import { CurrentPolicy } from "#executor/egress/current-policy.ts";

const narrow = loadPolicy({ rules: [{ host: "one.test" }] });
const wide = loadPolicy({ rules: [{ host: "one.test" }, { host: "two.test" }] });
const reaches = (policy: CurrentPolicy["known"], host: string) =>
  decide(policy, { method: "GET", url: `https://${host}/` }).allowed;

test("the policy of the lease serves until another is asked for, and the newer one from then on", async () => {
  const policy = new CurrentPolicy(narrow, async () => wide);
  expect(reaches(policy.known, "two.test")).toBe(false);
  expect(reaches(await policy.renewed(), "two.test")).toBe(true);
  expect(reaches(policy.known, "two.test")).toBe(true);
});

test("many refusals at once ask the gateway once", async () => {
  let asked = 0;
  const policy = new CurrentPolicy(narrow, async () => {
    asked++;
    return narrow;
  });
  await Promise.all(Array.from({ length: 100 }, () => policy.renewed()));
  await policy.renewed();
  expect(asked).toBe(1);
});

test("a gateway that cannot be asked is asked again the next time, and nothing is guessed", async () => {
  const answers: (() => Promise<Policy>)[] = [() => Promise.reject(new Error("no line")), async () => wide];
  const policy = new CurrentPolicy(narrow, () => answers.shift()!());
  await expect(policy.renewed()).rejects.toThrow("no line");
  expect(reaches(policy.known, "two.test")).toBe(false);
  expect(reaches(await policy.renewed(), "two.test")).toBe(true);
});
