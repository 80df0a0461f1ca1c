import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readlinkSync } from "node:fs";
import { lutimes, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Digest } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { openDiskBlobs } from "#gateway/node/disk-blobs.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "dsec-blobs-test-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const digestOf = (bytes: Uint8Array): Digest => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
const bytesOf = (text: string) => new TextEncoder().encode(text);
const streamOf = (...chunks: Uint8Array[]) =>
  Readable.toWeb(Readable.from(chunks)) as ReadableStream<Uint8Array>;
const pathOf = (root: string, digest: Digest) => {
  const hex = digest.slice("sha256:".length);
  return join(root, "sha256", hex.slice(0, 2), hex.slice(2, 4), hex);
};
const filesIn = async (root: string) =>
  (await readdir(root, { recursive: true, withFileTypes: true })).filter((entry) => !entry.isDirectory());
/** Of files below the root; the process may open and close others meanwhile. */
const openDescriptors = (root: string) =>
  readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(`${root}/`);
    } catch {
      return false; // the one that the list itself was read by
    }
  }).length;

test("content comes back as it went in, at every size around a chunk, and known or unknown beforehand", async () => {
  const root = join(directory, "round");
  const blobs = await openDiskBlobs(root);
  for (const size of [0, 1, 65_535, 65_536, 65_537, 1_000_000]) {
    const bytes = new Uint8Array(size).map((_, i) => (i * 31) % 256);
    const digest = digestOf(bytes);
    expect(await blobs.size(digest)).toBeNull();
    expect(await blobs.get(digest)).toBeNull();
    const cut = streamOf(bytes.subarray(0, size / 3), bytes.subarray(size / 3));
    expect(await blobs.put(size % 2 ? digest : null, cut, size)).toEqual({ digest, size });
    expect(await blobs.size(digest)).toBe(size);
    const back = await blobs.get(digest);
    expect(back!.size).toBe(size);
    expect(digestOf(new Uint8Array(await new Response(back!.body).arrayBuffer()))).toBe(digest);
  }
  expect(await readdir(join(root, "incoming"))).toEqual([]);
});

test("a full disk is said to be one, leaves nothing behind, and takes more once there is room", async () => {
  const root = join(directory, "full");
  await mkdir(root);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", root]);
  try {
    const blobs = await openDiskBlobs(root);
    const bytes = new Uint8Array(200_000);
    await expect(blobs.put(null, streamOf(bytes), bytes.length)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: "the gateway's disk is full; send it again once there is room",
    });
    expect(await filesIn(root)).toEqual([]);
    execFileSync("mount", ["-o", "remount,size=1m", root]);
    expect((await blobs.put(null, streamOf(bytes), bytes.length)).size).toBe(bytes.length);
  } finally {
    execFileSync("umount", [root]);
  }
});

test("content that is not what was announced, too large, or cut off leaves nothing behind, and no descriptor", async () => {
  const root = join(directory, "refused");
  const blobs = await openDiskBlobs(root);
  const announced = digestOf(bytesOf("announced"));
  await expect(blobs.put(announced, streamOf(bytesOf("other")), 100)).rejects.toMatchObject({
    code: "DIGEST_MISMATCH",
  });
  await expect(blobs.put(null, streamOf(bytesOf("12345"), bytesOf("6")), 5)).rejects.toMatchObject({
    code: "BODY_TOO_LARGE",
  });
  const broken = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(bytesOf("half")),
    pull: (controller) => controller.error(new Error("the line broke")),
  });
  await expect(blobs.put(null, broken, 100)).rejects.toThrow("the line broke");
  expect(await filesIn(root)).toEqual([]);
  expect(openDescriptors(root)).toBe(0);
});

test("storing what is there changes nothing, and is refused to who brings other bytes", async () => {
  const root = join(directory, "again");
  const blobs = await openDiskBlobs(root);
  const bytes = bytesOf("the same");
  const digest = digestOf(bytes);
  await blobs.put(digest, streamOf(bytes), 100);
  await blobs.put(digest, streamOf(bytes), 100);
  await expect(blobs.put(digest, streamOf(bytesOf("not it")), 100)).rejects.toMatchObject({
    code: "DIGEST_MISMATCH",
  });
  expect(await readFile(pathOf(root, digest), "utf8")).toBe("the same");
  expect(await filesIn(root)).toHaveLength(1);
});

test("writers of the same content at once all succeed, and one copy is left", async () => {
  const root = join(directory, "race");
  const blobs = await openDiskBlobs(root);
  const bytes = new Uint8Array(200_000).fill(7);
  const puts = await Promise.all(
    Array.from({ length: 20 }, (_, i) => blobs.put(i % 2 ? digestOf(bytes) : null, streamOf(bytes), 1e6)),
  );
  expect(new Set(puts.map(({ digest }) => digest)).size).toBe(1);
  expect(await filesIn(root)).toHaveLength(1);
});

test("a reader that leaves half-way gives its descriptor back", async () => {
  const root = join(directory, "leave");
  const blobs = await openDiskBlobs(root);
  const { digest } = await blobs.put(null, streamOf(new Uint8Array(5_000_000)), 1e7);
  for (let i = 0; i < 20; i++) {
    const reader = (await blobs.get(digest))!.body.getReader();
    await reader.read();
    await reader.cancel();
  }
  await expect.poll(() => openDescriptors(root)).toBe(0);
});

test("what a crash left half written is swept at a later start, and nothing else is", async () => {
  const root = join(directory, "crash");
  const first = await openDiskBlobs(root);
  const { digest } = await first.put(null, streamOf(bytesOf("whole")), 100);
  await writeFile(join(root, "incoming", "half"), "hal");
  const outside = join(directory, "outside");
  await writeFile(outside, "not ours");
  await symlink(outside, join(root, "incoming", "link"));
  const leftAt = Date.now() / 1000 - LIMITS.uploadIdleMs / 1000 - 1;
  for (const name of ["half", "link"]) await lutimes(join(root, "incoming", name), leftAt, leftAt);
  const second = await openDiskBlobs(root);
  expect(await readdir(join(root, "incoming"))).toEqual([]);
  expect(await second.size(digest)).toBe(5);
  expect(await readFile(outside, "utf8")).toBe("not ours");
});

test("a gateway that starts leaves alone what another one over the same folder is receiving", async () => {
  const root = join(directory, "shared");
  const first = await openDiskBlobs(root);
  const begun = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(bytesOf("half ")),
    async pull(controller) {
      begun.resolve();
      await goOn.promise;
      controller.enqueue(bytesOf("whole"));
      controller.close();
    },
  });
  const receiving = first.put(null, body, 100);
  await begun.promise;
  const second = await openDiskBlobs(root);
  goOn.resolve();
  expect(await second.size((await receiving).digest)).toBe(10);
});

test("a link in place of a blob or of the folder is never followed (B13, B70)", async () => {
  const root = join(directory, "links");
  const blobs = await openDiskBlobs(root);
  const digest = digestOf(bytesOf("planted"));
  const secret = join(directory, "secret");
  await writeFile(secret, "host secret");
  await mkdir(dirname(pathOf(root, digest)), { recursive: true });
  await symlink(secret, pathOf(root, digest));
  await expect(blobs.get(digest)).rejects.toThrow();
  await expect(blobs.size(digest)).rejects.toThrow(/no regular file/);

  const elsewhere = join(directory, "elsewhere");
  await mkdir(elsewhere);
  await symlink(elsewhere, join(directory, "linked-root"));
  await expect(openDiskBlobs(join(directory, "linked-root"))).rejects.toMatchObject({
    code: "CONFIG_INVALID",
  });
  expect(await readdir(elsewhere)).toEqual([]);
});

test("nothing but a digest becomes a path", async () => {
  const blobs = await openDiskBlobs(join(directory, "paths"));
  for (const name of [
    "../../etc/passwd",
    "sha256:../x",
    `sha256:${"A".repeat(64)}`,
    `sha256:${"a".repeat(63)}/`,
  ]) {
    await expect(blobs.size(name as Digest)).rejects.toMatchObject({ code: "INVALID_REQUEST" });
    await expect(blobs.get(name as Digest)).rejects.toMatchObject({ code: "INVALID_REQUEST" });
  }
});
