import { expect, test } from "vitest";
import { LiveDigests } from "#executor/memory/live-digests.ts";

const entries = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ key: `k${at}`, text: String(at) }));

test("hashes of no more keys are kept than may be, and the digest asked for longest ago goes first", () => {
  const digests = new LiveDigests(1_000);
  digests.rebuild("first", entries(400), 1);
  digests.rebuild("second", entries(400), 1);
  expect(digests.at("first", 1)).not.toBeNull();
  digests.rebuild("third", entries(400), 1);
  expect(digests.at("second", 1)).toBeNull();
  expect(digests.at("first", 1)).not.toBeNull();
  expect(digests.at("third", 1)).not.toBeNull();
});

test("what grows by its writes takes the place of others, and what is removed or cleared gives it back", () => {
  const digests = new LiveDigests(1_000);
  digests.rebuild("idle", entries(400), 1);
  digests.rebuild("growing", [], 0);
  let version = 0;
  const write = (count: number) => {
    for (const { key, text } of entries(count)) digests.stored("growing", key, text, ++version);
  };
  for (let round = 0; round < 5; round++) {
    write(500);
    expect(digests.at("growing", version)).not.toBeNull();
    if (round % 2 === 0) digests.cleared("growing", ++version);
    else for (const { key } of entries(500)) digests.removed("growing", key, ++version);
  }
  expect(digests.at("idle", 1)).not.toBeNull();
  expect(digests.at("growing", version)).not.toBeNull();
  write(1_000);
  expect(digests.at("growing", version)).not.toBeNull();
  expect(digests.at("idle", 1)).toBeNull();
});

test("a namespace with more keys than may be kept has its digest until another is asked for", () => {
  const digests = new LiveDigests(1_000);
  digests.rebuild("large", entries(2_000), 1);
  expect(digests.at("large", 1)).not.toBeNull();
  digests.rebuild("small", entries(1), 1);
  expect(digests.at("large", 1)).toBeNull();
  expect(digests.at("small", 1)).not.toBeNull();
});

test("a digest is forgotten with the last that follows it, and not before", () => {
  const digests = new LiveDigests();
  const ends = [digests.follow("one"), digests.follow("one")];
  digests.rebuild("one", entries(1), 1);
  ends[0]!();
  ends[0]!();
  expect(digests.expected("one")).not.toBeNull();
  ends[1]!();
  expect(digests.expected("one")).toBeNull();
});
