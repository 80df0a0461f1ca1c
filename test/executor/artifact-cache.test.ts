import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
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
const unreachable = new DsecError("GATEWAY_UNREACHABLE", "the gateway is away");

async function* brokenOff() {
  yield content.subarray(0, 100);
  throw unreachable;
}

test("content appears under its digest only when it is whole and right", async () => {
  const wrong = await ArtifactCache.open(directory, async () => streamOf(content.subarray(1)));
  await expect(wrong.acquire(digest, live)).rejects.toMatchObject({ code: "DIGEST_MISMATCH" });
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

test("a download that cannot begin or breaks off is begun anew until it is whole", async () => {
  const answers = [
    () => Promise.reject(unreachable),
    async () => brokenOff(),
    async () => brokenOff(),
    async () => streamOf(content),
  ];
  const failures: string[] = [];
  const cache = await ArtifactCache.open(directory, () => answers.shift()!(), {
    onFailure: ({ code }) => failures.push(code),
  });
  const path = await cache.acquire(digest, live);
  expect((await readFile(path)).equals(content)).toBe(true);
  expect(failures).toEqual(["GATEWAY_UNREACHABLE", "GATEWAY_UNREACHABLE", "GATEWAY_UNREACHABLE"]);
  expect(await readdir(directory)).toEqual([digest.replace(":", "-")]);
});

test("what is no failure of the gateway's ends a download at once", async () => {
  let fetches = 0;
  const cache = await ArtifactCache.open(directory, async () => {
    fetches++;
    await rm(directory, { recursive: true });
    return streamOf(content);
  });
  await expect(cache.acquire(digest, live)).rejects.toMatchObject({ code: "ENOENT" });
  expect(fetches).toBe(1);
});

test("a task that is stopped while the gateway is away asks no more", async () => {
  const stop = new AbortController();
  let fetches = 0;
  const cache = await ArtifactCache.open(directory, async () => {
    if (++fetches === 2) stop.abort("cancelled");
    throw unreachable;
  });
  await expect(cache.acquire(digest, stop.signal)).rejects.toBe("cancelled");
  expect(fetches).toBe(2);
});

test("a task that is stopped while it downloads leaves at once, and the download goes on for the others", async () => {
  const stops = [new AbortController(), new AbortController()];
  const begun = Promise.withResolvers<AbortSignal>();
  const gate = Promise.withResolvers<void>();
  let fetches = 0;
  const cache = await ArtifactCache.open(directory, async (_, signal) => {
    fetches++;
    begun.resolve(signal);
    await gate.promise;
    return streamOf(content);
  });
  const [first, joined, other] = [...stops.map(({ signal }) => signal), live].map((signal) =>
    cache.acquire(digest, signal),
  );
  const signal = await begun.promise;
  // Nothing comes as yet, so that only a stop can be what ends these.
  for (const [at, stopped] of [joined!, first!].entries()) {
    stops[1 - at]!.abort("cancelled");
    await expect(stopped).rejects.toBe("cancelled");
  }
  expect(signal.aborted).toBe(false);
  gate.resolve();
  expect((await readFile(await other!)).equals(content)).toBe(true);
  expect(fetches).toBe(1);
});

test("a download ends with the last task that waits for it, and the next task begins its own", async () => {
  const stop = new AbortController();
  const begun = Promise.withResolvers<AbortSignal>();
  let fetches = 0;
  const cache = await ArtifactCache.open(directory, async (_, signal) => {
    if (++fetches > 1) return streamOf(content);
    begun.resolve(signal);
    return new Promise<never>(() => {});
  });
  const both = [cache.acquire(digest, stop.signal), cache.acquire(digest, stop.signal)];
  const signal = await begun.promise;
  stop.abort("cancelled");
  for (const stopped of both) await expect(stopped).rejects.toBe("cancelled");
  expect(signal.aborted).toBe(true);
  expect((await readFile(await cache.acquire(digest, live))).equals(content)).toBe(true);
  expect(fetches).toBe(2);
});

test("a refusal is every waiter's, and the next task asks anew", async () => {
  const begun = Promise.withResolvers<void>();
  const refusal = Promise.withResolvers<never>();
  let fetches = 0;
  const cache = await ArtifactCache.open(directory, async () => {
    if (++fetches > 1) return streamOf(content);
    begun.resolve();
    return refusal.promise;
  });
  const first = cache.acquire(digest, live);
  await begun.promise;
  const both = Promise.allSettled([first, cache.acquire(digest, live)]);
  refusal.reject(new DsecError("ARTIFACT_NOT_FOUND", `artifact ${digest} is not here`));
  for (const one of await both) {
    expect(one).toMatchObject({ status: "rejected", reason: { code: "ARTIFACT_NOT_FOUND" } });
  }
  await cache.acquire(digest, live);
  expect(fetches).toBe(2);
});

test("the least recently used artifacts go first, and none that a task still uses", async () => {
  const blobs = Array.from({ length: 4 }, () => randomBytes(1000));
  const byDigest = new Map(blobs.map((bytes) => [digestOf(bytes), bytes]));
  const cache = await ArtifactCache.open(directory, async (wanted) => streamOf(byDigest.get(wanted)!), {
    keptBytes: 3_000,
  });
  const [used, again, idle, last] = blobs.map(digestOf) as [Digest, Digest, Digest, Digest];
  // File times are what tells them apart.
  for (const [at, one] of [used, again, idle].entries()) {
    await utimes(await cache.acquire(one, live), at, at);
    if (one !== used) cache.release(one);
  }
  for (const one of [again, last]) {
    await cache.acquire(one, live);
    cache.release(one);
  }
  const names = (await readdir(directory)).map((name) => name.replace("-", ":"));
  expect(names.sort()).toEqual([used, again, last].sort());
});

test("what a task has acquired stays until it lets go of it, however hard others evict", async () => {
  const blobs = Array.from({ length: 6 }, () => randomBytes(1000));
  const byDigest = new Map(blobs.map((bytes) => [digestOf(bytes), bytes]));
  const cache = await ArtifactCache.open(directory, async (wanted) => streamOf(byDigest.get(wanted)!), {
    keptBytes: 0,
  });
  const task = async (at: number) => {
    for (let turn = 0; turn < 40; turn++) {
      const [wanted, bytes] = [...byDigest][(at * 7 + turn * (at + 1)) % blobs.length]!;
      const path = await cache.acquire(wanted, live);
      expect((await readFile(path)).equals(bytes)).toBe(true);
      cache.release(wanted);
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, at) => task(at)));
});

test("downloads that an earlier life did not finish are removed, finished ones kept", async () => {
  const first = await ArtifactCache.open(directory, async () => streamOf(content));
  await first.acquire(digest, live);
  await writeFile(join(directory, "temporary-0123"), "half");
  const second = await ArtifactCache.open(directory, () => Promise.reject(new Error("it is here")));
  expect(await readdir(directory)).toEqual([digest.replace(":", "-")]);
  await second.acquire(digest, live);
});
