import { expect, test } from "vitest";
import { AuthorityStock } from "#executor/egress/authority-stock.ts";

test("no two sandboxes are given the same authority, in a burst or later", async () => {
  const stock = new AuthorityStock();
  const taken = await Promise.all(Array.from({ length: 12 }, () => stock.take()));
  for (let i = 0; i < 3; i++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    taken.push(await stock.take());
  }
  expect(new Set(taken.map(({ certificate }) => certificate)).size).toBe(15);
});
