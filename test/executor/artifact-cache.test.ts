import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import { ArtifactCache } from "#executor/artifact-cache.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "dsec-artifacts-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const digestOf = (bytes: Uint8Array): Digest => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
const content = randomBytes(10_000);
const digest = digestOf(content);
const live = new AbortController().signal;
const streamOf = (bytes: Uint8Array) => new Blob([new Uint8Array(bytes)]).stream();

test("content appears under its digest only when it is whole and right", async () => {
  const wrong = await ArtifactCache.open(directory, async () => streamOf(content.subarray(1)));
  await expect(wrong.acquire(digest, live)).rejects.toMatchObject({ code: "DIGEST_MISMATCH" });
  expect(await readdir(directory)).toEqual([]);
  const broken = await ArtifactCache.open(
    directory,
    async () =>
      new ReadableStream({
        start: (controller) => controller.enqueue(new Uint8Array(content.subarray(0, 100))),
        pull: (controller) => controller.error(new TypeError("terminated")),
      }),
  );
  await expect(broken.acquire(digest, live)).rejects.toMatchObject({ code: "GATEWAY_UNREACHABLE" });
  expect(await readdir(directory)).toEqual([]);
  const right = await ArtifactCache.open(directory, async () => streamOf(content));
  const path = await right.acquire(digest, live);
  expect((await readFile(path)).equals(content)).toBe(true);
  expect((await stat(path)).mode & 0o777).toBe(0o555);
});

test("tasks that want the same artifact at once wait for one download", async () => {
  let fetches = 0;
  const gate = Promise.withResolvers<void>();
  const cache = await ArtifactCache.open(directory, async () => {
    fetches++;
    await gate.promise;
    return streamOf(content);
  });
  const paths = Array.from({ length: 8 }, () => cache.acquire(digest, live));
  gate.resolve();
  expect(new Set(await Promise.all(paths)).size).toBe(1);
  expect(fetches).toBe(1);
});

test("a task that is stopped while it downloads takes no other task's download with it", async () => {
  const stop = new AbortController();
  const begun = Promise.withResolvers<void>();
  let fetches = 0;
  const cache = await ArtifactCache.open(directory, async (_, signal) => {
    if (++fetches > 1) return streamOf(content);
    begun.resolve();
    return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  const stopped = cache.acquire(digest, stop.signal);
  const other = cache.acquire(digest, live);
  await begun.promise;
  stop.abort("cancelled");
  await expect(stopped).rejects.toBe("cancelled");
  expect((await readFile(await other)).equals(content)).toBe(true);
});

test("a refusal is every waiter's, and the next task asks anew", async () => {
  let fetches = 0;
  const cache = await ArtifactCache.open(directory, async () => {
    if (++fetches === 1) throw new DsecError("ARTIFACT_NOT_FOUND", `artifact ${digest} is not here`);
    return streamOf(content);
  });
  const both = [cache.acquire(digest, live), cache.acquire(digest, live)];
  for (const one of both) await expect(one).rejects.toMatchObject({ code: "ARTIFACT_NOT_FOUND" });
  await cache.acquire(digest, live);
  expect(fetches).toBe(2);
});

test("the least recently used artifacts go first, and none that a task still uses", async () => {
  const blobs = Array.from({ length: 4 }, () => randomBytes(1000));
  const byDigest = new Map(blobs.map((bytes) => [digestOf(bytes), bytes]));
  const cache = await ArtifactCache.open(directory, async (wanted) => streamOf(byDigest.get(wanted)!), 2_000);
  const [used, idle, recent, last] = blobs.map(digestOf) as [Digest, Digest, Digest, Digest];
  await cache.acquire(used, live);
  for (const one of [idle, recent, last]) {
    await cache.acquire(one, live);
    cache.release(one);
    await new Promise((resolve) => setTimeout(resolve, 10)); // file times are what tells them apart
  }
  const names = (await readdir(directory)).map((name) => name.replace("-", ":"));
  expect(names).toContain(used);
  expect(names).toContain(last);
  expect(names).not.toContain(idle);
});

test("downloads that an earlier life did not finish are removed, finished ones kept", async () => {
  const first = await ArtifactCache.open(directory, async () => streamOf(content));
  await first.acquire(digest, live);
  await writeFile(join(directory, "fetching-0123"), "half");
  const second = await ArtifactCache.open(directory, () => Promise.reject(new Error("it is here")));
  expect(await readdir(directory)).toEqual([digest.replace(":", "-")]);
  await second.acquire(digest, live);
});
