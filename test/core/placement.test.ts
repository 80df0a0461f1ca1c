import { expect, test } from "vitest";
import { type Candidate, whyQueued } from "#core/placement.ts";
import { NO_RESOURCES, type Resources } from "#core/resources.ts";

const CAPACITY: Resources = {
  ...NO_RESOURCES,
  ...{ cpu_millis: 4_000, memory_mb: 4_096, pids: 1_000, disk_mb: 10_000 },
};
const executor = (part: Partial<Candidate> = {}): Candidate => ({
  ...{ capacity: CAPACITY, free: CAPACITY, images: [], draining: false },
  ...part,
});
const TASK = {
  asked: { ...NO_RESOURCES, cpu_millis: 2_000, memory_mb: 512, pids: 64 },
  image: "host",
  retryInMs: 0,
};
const NOBODY_AHEAD = { count: 0, isMore: false };

test.each<[string, Partial<typeof TASK>, { count: number; isMore: boolean }, Candidate[], object]>([
  ["nobody runs tasks", {}, NOBODY_AHEAD, [], { reason: "no_executor", message: /dsec executor --gateway/ }],
  ["all are draining", {}, NOBODY_AHEAD, [executor({ draining: true })], { reason: "all_draining" }],
  [
    "none has the image",
    { image: "debian:12" },
    NOBODY_AHEAD,
    [executor({ images: ["alpine:3"] }), executor({ images: ["debian:12"], draining: true })],
    { reason: "no_image", message: /debian:12.*dsec image import/ },
  ],
  [
    "none that has the image is large enough",
    { image: "debian:12" },
    NOBODY_AHEAD,
    [executor(), executor({ images: ["debian:12"], capacity: { ...CAPACITY, cpu_millis: 1_500 } })],
    { reason: "too_large", axis: "cpu_millis", message: /asks for 2 cpu_cores.* has in all is 1\.5/ },
  ],
  [
    "its retry is held back",
    { retryInMs: 4_200 },
    NOBODY_AHEAD,
    [executor()],
    { reason: "retry_later", message: /in 5 s, after one that failed/ },
  ],
  [
    "no executor has room on an axis, and how many are before it",
    {},
    { count: 1, isMore: false },
    [
      executor({ free: { ...CAPACITY, cpu_millis: 1_900 } }),
      executor({ free: { ...CAPACITY, cpu_millis: 0, pids: 3 } }),
      // So large that it would fit, were it not for its capacity.
      executor({
        capacity: { ...CAPACITY, memory_mb: 100 },
        free: { ...CAPACITY, memory_mb: 100 },
      }),
    ],
    {
      reason: "no_room",
      axis: "cpu_millis",
      message: /asks for 2 cpu_cores; the most that an executor has free is 1\.9; 1 task is before it$/,
    },
  ],
  [
    "others are first",
    {},
    { count: 1_000, isMore: true },
    [executor()],
    { reason: "others_first", message: /^more than 1000 tasks are before it$/ },
  ],
  ["an executor is about to take it", {}, NOBODY_AHEAD, [executor()], { reason: "about_to_start" }],
])("a queued task is told that %s", (_what, part, ahead, executors, expected) => {
  const wait = whyQueued({ ...TASK, ...part }, ahead, executors);
  const { message, ...facts } = expected as { message?: RegExp };
  expect(wait).toMatchObject({ axis: null, ...facts });
  if (message !== undefined) expect(wait.message).toMatch(message);
});
