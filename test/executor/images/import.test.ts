import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { createWriteStream, existsSync } from "node:fs";
import {
  chmod,
  link,
  lstat,
  lutimes,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { type Header, pack } from "tar-stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { importImage } from "#executor/images/import.ts";
import { ImageStore } from "#executor/images/store.ts";

let directory: string;
let store: ImageStore;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "dsec-images-"));
  store = await ImageStore.open(join(directory, "data"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

type Member = Partial<Header> & { name: string; content?: string };

async function tarOf(...members: Member[]): Promise<string> {
  const archive = pack();
  for (const { content, ...header } of members) archive.entry(header as Header, content ?? "");
  archive.finalize();
  const path = join(directory, `${members.length}-${Math.random()}.tar`);
  await pipeline(archive, createWriteStream(path));
  return path;
}

/** Names, kinds, modes and owners in an image, read back by the file system's own tool. */
function unpack(digestPath: string): string {
  const target = join(directory, "unpacked");
  execFileSync("fsck.erofs", [`--extract=${target}`, "--overwrite", "--preserve", digestPath]);
  return target;
}

test("an image of a folder is named by the digest of its bytes and found by name and by digest", async () => {
  const root = join(directory, "root");
  await mkdir(join(root, "etc"), { recursive: true });
  await writeFile(join(root, "etc/hello"), "hi\n");
  const { digest, size } = await importImage(store, root, { name: "hello:1" });
  const { path } = await store.find("hello:1");
  expect(
    createHash("sha256")
      .update(await readFile(path))
      .digest("hex"),
  ).toBe(digest.slice(7));
  expect((await store.find(digest)).path).toBe(path);
  expect(await store.list()).toEqual([{ digest, names: ["hello:1"], size }]);
  expect(await readFile(join(unpack(path), "etc/hello"), "utf8")).toBe("hi\n");
});

test("equal content of equal times gives the same digest, whatever the order and the form it came in", async () => {
  const root = join(directory, "root");
  await mkdir(join(root, "a"), { recursive: true });
  await writeFile(join(root, "a/x"), "x");
  await writeFile(join(root, "a/y"), "y");
  const timed = async (milliseconds: number) => {
    for (const [at, name] of ["a/x", "a/y", "a", "."].entries()) {
      const time = new Date(1_700_000_000_000 + at * 1000 + milliseconds);
      await utimes(join(root, name), time, time);
    }
    return importImage(store, root, { name: null });
  };
  const first = await timed(0);
  // An archive has no parts of a second.
  const second = await timed(900);
  const member = (at: number, name: string, content?: string): Member => ({
    ...{ name, mtime: new Date(1_700_000_000_000 + at * 1000) },
    ...(content === undefined ? { type: "directory", mode: 0o755 } : { content, mode: 0o644 }),
  });
  const members = [member(1, "a/y", "y"), member(0, "./a/x", "x"), member(3, "./"), member(2, "a/")];
  const tar = await tarOf(...members);
  const third = await importImage(store, tar, { name: null });
  const bytes = await readFile(tar);
  const gz = join(directory, "t.tgz");
  await writeFile(gz, gzipSync(bytes));
  const zst = join(directory, "t.anything");
  // in several frames, as `pzstd` and `zstd -T0` with `--rsyncable` may write it
  const frames = [bytes.subarray(0, 700), Buffer.alloc(0), bytes.subarray(700)];
  await writeFile(zst, Buffer.concat(frames.map((part) => zstdCompressSync(part))));
  execFileSync("xz", ["--keep", tar]);
  const more = [];
  for (const path of [gz, zst, `${tar}.xz`]) more.push(await importImage(store, path, { name: null }));
  expect(new Set([first, second, third, ...more].map((image) => image.digest)).size).toBe(1);
  const other = await timed(1000);
  expect(other.digest).not.toBe(first.digest);
});

/** The mtime of each, in seconds. */
async function timesIn(root: string, ...names: string[]): Promise<number[]> {
  return Promise.all(names.map(async (name) => (await lstat(join(root, name))).mtimeMs / 1000));
}

test("files, folders and links keep the times of their folder, so that what was compiled or packed is not stale", async () => {
  const root = join(directory, "root");
  await mkdir(join(root, "a/b"), { recursive: true });
  await writeFile(join(root, "a/b/x"), "x");
  await symlink("b/x", join(root, "a/link"));
  await writeFile(join(root, "late"), "x");
  await utimes(join(root, "late"), 2 ** 33, 2 ** 33);
  await lutimes(join(root, "a/link"), 1_600_000_004, 1_600_000_004);
  for (const [at, name] of ["a/b/x", "a/b", "a", "."].entries())
    await utimes(join(root, name), 1_600_000_000 + at, 1_600_000_000 + at);
  const { digest } = await importImage(store, root, { name: null });
  const unpacked = unpack((await store.find(digest)).path);
  expect(await timesIn(unpacked, "a/b/x", "a/b", "a", ".", "a/link", "late")).toEqual([
    1_600_000_000,
    1_600_000_001,
    1_600_000_002,
    1_600_000_003,
    1_600_000_004,
    2 ** 32 - 1,
  ]);
});

test("files, folders and links keep the times of their archive; what it does not name has the least", async () => {
  const mtime = (second: number) => ({ mtime: new Date(second * 1000) });
  const tar = await tarOf(
    { name: "named/", type: "directory", ...mtime(1_500_000_000) },
    { name: "named/x", content: "x", ...mtime(1_500_000_001) },
    { name: "implied/y", content: "y", ...mtime(1_500_000_002) },
    { name: "link", type: "symlink", linkname: "named/x", ...mtime(1_500_000_003) },
    { name: "hard", type: "link", linkname: "named/x", ...mtime(1_500_000_004) },
    { name: "named/x2", content: "x", ...mtime(1_500_000_005) },
  );
  const { digest } = await importImage(store, tar, { name: null });
  const unpacked = unpack((await store.find(digest)).path);
  const names = ["named", "named/x", "implied", "implied/y", "link", "hard", "named/x2", "."];
  expect(await timesIn(unpacked, ...names)).toEqual([
    1_500_000_000, 1_500_000_001, 0, 1_500_000_002, 1_500_000_003, 1_500_000_001, 1_500_000_005, 0,
  ]);
  expect((await importImage(store, tar, { name: null })).digest).toBe(digest);
});

test.each<[string, Member[], RegExp]>([
  ["climbs", [{ name: "../evil", content: "x" }], /\.\.\/evil.*climbs/],
  ["climbs in the middle", [{ name: "a/../../evil", content: "x" }], /climbs/],
  ["is absolute", [{ name: "/evil", content: "x" }], /absolute/],
  [
    "goes through a link to outside",
    [
      { name: "l", type: "symlink", linkname: "/tmp" },
      { name: "l/evil", content: "x" },
    ],
    /written through it/,
  ],
  [
    "goes through a link deeper down",
    [
      { name: "a/l", type: "symlink", linkname: "../b" },
      { name: "b/", type: "directory" },
      { name: "a/l/evil", content: "x" },
    ],
    /written through it/,
  ],
  [
    "is a relative link out",
    [{ name: "a/l", type: "symlink", linkname: "../../evil" }],
    /link out of the image/,
  ],
  ["is a hard link to outside", [{ name: "h", type: "link", linkname: "../../../etc/passwd" }], /climbs/],
  ["is a hard link to an absolute name", [{ name: "h", type: "link", linkname: "/etc/passwd" }], /absolute/],
  ["is a hard link to nothing", [{ name: "h", type: "link", linkname: "etc/passwd" }], /no earlier file/],
  [
    "is a hard link through a link",
    [
      { name: "l", type: "symlink", linkname: "/etc" },
      { name: "h", type: "link", linkname: "l/passwd" },
    ],
    /written through it/,
  ],
  ["is a character device", [{ name: "d", type: "character-device" }], /character-device/],
  ["is a block device", [{ name: "d", type: "block-device" }], /block-device/],
  ["is a pipe", [{ name: "d", type: "fifo" }], /fifo/],
  [
    "puts a file in a folder's place",
    [
      { name: "a/b", content: "x" },
      { name: "a", content: "x" },
    ],
    /replaces a folder/,
  ],
])(
  "an archive with a member that %s is refused whole, and nothing is written anywhere",
  async (_, members, why) => {
    const tar = await tarOf({ name: "good", content: "good" }, ...members);
    await expect(importImage(store, tar, { name: "bad:1" })).rejects.toMatchObject({
      code: "IMAGE_INVALID",
      message: expect.stringMatching(why),
    });
    expect(await readdir(store.directory)).toEqual([]);
    for (const path of ["/tmp/evil", "/evil", join(directory, "evil"), join(directory, "data/evil")]) {
      expect(existsSync(path), path).toBe(false);
    }
  },
);

test("a link's file is never written to, when a later member takes the link's name", async () => {
  const outside = join(directory, "outside");
  await writeFile(outside, "untouched");
  const tar = await tarOf(
    { name: "f", type: "symlink", linkname: outside },
    { name: "f", content: "mine", mode: 0o600 },
  );
  const { digest } = await importImage(store, tar, { name: null });
  expect(await readFile(outside, "utf8")).toBe("untouched");
  expect(await readFile(join(unpack((await store.find(digest)).path), "f"), "utf8")).toBe("mine");
});

test("set-id bits are dropped, sticky bits and owners kept, links within the image kept", async () => {
  const tar = await tarOf(
    { name: "bin/su", content: "x", mode: 0o6755, uid: 0, gid: 0 },
    { name: "tmp/", type: "directory", mode: 0o1777 },
    { name: "home/u", content: "u", mode: 0o640, uid: 1000, gid: 1001 },
    { name: "link", type: "symlink", linkname: "/bin/su" },
    { name: "bin/hard", type: "link", linkname: "bin/su" },
  );
  const root = unpack((await store.find((await importImage(store, tar, { name: null })).digest)).path);
  expect((await stat(join(root, "bin/su"))).mode & 0o7777).toBe(0o755);
  expect((await stat(join(root, "tmp"))).mode & 0o7777).toBe(0o1777);
  const owned = await stat(join(root, "home/u"));
  expect([owned.uid, owned.gid, owned.mode & 0o7777]).toEqual([1000, 1001, 0o640]);
  expect(await readFile(join(root, "bin/hard"), "utf8")).toBe("x");
});

test("a folder with set-id bits, links, hard links and a pipe is copied without following or opening any", async () => {
  const root = join(directory, "root");
  await mkdir(root);
  await writeFile(join(root, "su"), "x");
  await chmod(join(root, "su"), 0o4755);
  await link(join(root, "su"), join(root, "su2"));
  await symlink("/etc/shadow", join(root, "secret"));
  execFileSync("mkfifo", [join(root, "pipe")]);
  const unpacked = unpack((await store.find((await importImage(store, root, { name: null })).digest)).path);
  expect((await readdir(unpacked)).sort()).toEqual(["secret", "su", "su2"]);
  expect((await stat(join(unpacked, "su"))).mode & 0o7777).toBe(0o755);
});

test("names that begin with a dot are kept, of a folder and of an archive", async () => {
  const root = join(directory, "root");
  await mkdir(join(root, ".config"), { recursive: true });
  for (const name of [".dockerenv", "dockerenv", "..odd", ".config/x"])
    await writeFile(join(root, name), name);
  const { digest } = await importImage(store, root, { name: null });
  const unpacked = unpack((await store.find(digest)).path);
  expect((await readdir(unpacked)).sort()).toEqual(["..odd", ".config", ".dockerenv", "dockerenv"]);
  const tar = join(directory, "root.tar");
  execFileSync("tar", ["--create", "--file", tar, "--directory", root, "."]);
  expect((await importImage(store, tar, { name: null })).digest).toBe(digest);
});

test("a folder in which the images are kept themselves is refused, through a link too", async () => {
  const { directory: images } = store;
  await symlink(directory, join(directory, "link"));
  for (const source of [directory, join(directory, "link"), join(directory, "data"), images, "/"]) {
    await expect(importImage(store, source, { name: null })).rejects.toMatchObject({
      code: "INVALID_REQUEST",
      message: expect.stringContaining(`${source} holds ${images}`),
    });
  }
  expect(await readdir(images)).toEqual([]);
});

test.each([
  ["was cut off after its last member", (bytes: Buffer) => bytes.subarray(0, -20)],
  ["has a changed bit", (bytes: Buffer) => bytes.with(bytes.length >> 1, bytes[bytes.length >> 1]! ^ 1)],
])("an xz archive that %s is refused, however much of it could be unpacked", async (_, broken) => {
  // What cannot be compressed stands in it as it is: only the checksum tells that it is another.
  const tar = await tarOf({ name: "a", content: randomBytes(100_000).toString("latin1") });
  execFileSync("xz", [tar]);
  await writeFile(`${tar}.xz`, broken(await readFile(`${tar}.xz`)));
  await expect(importImage(store, `${tar}.xz`, { name: null })).rejects.toMatchObject({
    code: "IMAGE_INVALID",
    message: expect.stringMatching(/xz: .*(corrupt|Unexpected end)/),
  });
  expect(await readdir(store.directory)).toEqual([]);
});

test.each([
  ["no archive", Buffer.from("this is no archive at all, only some text".repeat(100))],
  ["an empty file", Buffer.alloc(0)],
  ["a cut-off archive", null],
  ["a cut-off gzip", gzipSync(Buffer.alloc(4096)).subarray(0, 20)],
])("%s is refused with IMAGE_INVALID and leaves nothing", async (_, bytes) => {
  const path = join(directory, "broken");
  if (bytes !== null) await writeFile(path, bytes);
  else
    await writeFile(
      path,
      (await readFile(await tarOf({ name: "a", content: "x".repeat(5000) }))).subarray(0, 2000),
    );
  await expect(importImage(store, path, { name: null })).rejects.toMatchObject({ code: "IMAGE_INVALID" });
  expect(await readdir(store.directory)).toEqual([]);
});

test("imports at once under many names keep every name", async () => {
  const root = join(directory, "root");
  await mkdir(root);
  await writeFile(join(root, "f"), "f");
  const names = Array.from({ length: 12 }, (_, i) => `image:${i}`);
  await Promise.all(names.map((name) => importImage(store, root, { name })));
  const [image, ...others] = await store.list();
  expect(others).toEqual([]);
  expect(image!.names.sort()).toEqual(names.sort());
});

test("removing a name keeps an image that has another; removing the last one removes the image", async () => {
  const root = join(directory, "root");
  await mkdir(root);
  const { digest } = await importImage(store, root, { name: "a:1" });
  await importImage(store, root, { name: "b:1" });
  expect(await store.remove("a:1")).toEqual({ removedNames: ["a:1"], removedImage: null });
  await expect(store.find("a:1")).rejects.toMatchObject({ code: "IMAGE_NOT_FOUND" });
  expect(await store.remove("b:1")).toEqual({ removedNames: ["b:1"], removedImage: digest });
  expect(await store.list()).toEqual([]);
  await expect(store.find(digest)).rejects.toMatchObject({ code: "IMAGE_NOT_FOUND" });
});

test.each(["host", "Upper:1", "../x", "a b", `sha256:${"0".repeat(64)}`, "__proto__", ""])(
  "%j cannot be an image's name",
  async (name) => {
    await mkdir(join(directory, "root"));
    await expect(importImage(store, join(directory, "root"), { name })).rejects.toMatchObject({
      code: "INVALID_REQUEST",
    });
    await expect(store.find(name === "host" ? "constructor" : name)).rejects.toMatchObject({
      code: "IMAGE_NOT_FOUND",
    });
  },
);
