import { expect, test } from "vitest";
import { growth, LINEAR_BELOW } from "#test/support/growth.ts";
import type { EventBody } from "#trace/events/event.ts";
import { validate } from "#trace/format/validate.ts";
import { made, opened } from "./made.ts";

/** Steps within each other, all of which end, the innermost first. */
function nested(steps: number): EventBody[] {
  const step = (state: "begun" | "ended", number: number): EventBody => ({
    type: "plan_step",
    state,
    step: number,
    name: "s",
    parent: number === 1 ? null : number - 1,
  });
  const numbers = Array.from({ length: steps }, (_, at) => at + 1);
  return [
    ...numbers.map((number) => step("begun", number)),
    ...numbers.reverse().map((number) => step("ended", number)),
  ];
}

test("steps that nest are checked in time in proportion to their number", async () => {
  const judge = async (steps: number) => {
    const { segments } = await opened(made(nested(steps)));
    const validation = await validate(segments[0]!);
    expect(validation).toMatchObject({ steps: { begun: steps, ended: steps }, problem_count: 0 });
  };
  expect(await growth(40_000, judge)).toBeLessThan(LINEAR_BELOW);
});

test("a step that ends before those within it is told, and the innermost open one is known after", async () => {
  const step = (state: "begun" | "ended", number: number, parent: number | null = null): EventBody => ({
    type: "plan_step",
    ...{ state, step: number, name: "s", parent },
  });
  const bodies = [
    step("begun", 1),
    step("begun", 2, 1),
    step("ended", 1),
    step("begun", 3, 2),
    step("ended", 3),
  ];
  const { segments } = await opened(made([...bodies, step("ended", 2), step("begun", 4), step("ended", 4)]));
  expect(await validate(segments[0]!)).toMatchObject({
    steps: { begun: 4, ended: 4 },
    problems: [{ seq: 3, what: "step 1 ends while step 2 within it is open" }],
  });
});
