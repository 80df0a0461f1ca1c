import { execFileSync, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { type Header, pack } from "tar-stream";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { type ArchiveMember, indexFrame } from "#trace/archive/index.ts";
import { padded, tarHeader } from "#trace/archive/tar.ts";
import { FrameCutter } from "#trace/archive/zstd-frames.ts";
import type { Source } from "#trace/format/walk.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { extractArchive, listArchive } from "#trace/node/extract-archive.ts";
import { writeArchive } from "#trace/node/write-archive.ts";

const root = mkdtempSync(join(tmpdir(), "archive-"));
afterAll(() => rmSync(root, { recursive: true }));
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(root, "case-"));
});

/** Counts what is read. */
function sourceOf(bytes: Uint8Array): Source & { readBytes: number } {
  const source = {
    name: "x.tar.zst",
    size: bytes.length,
    readBytes: 0,
    async read(offset: number, length: number) {
      source.readBytes += length;
      return bytes.subarray(offset, offset + length);
    },
  };
  return source;
}

function made(files: Record<string, Uint8Array | string>): { path: string; name: string }[] {
  return Object.entries(files).map(([name, content]) => {
    const path = join(folder, "from", name);
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, content);
    return { path, name };
  });
}

async function archived(files: Record<string, Uint8Array | string>): Promise<Uint8Array> {
  const output = join(folder, `${randomBytes(4).toString("hex")}.tar.zst`);
  await writeArchive(output, made(files));
  return readFileSync(output);
}

const NAMES = {
  "a.trace": "one",
  "b/c.trace": randomBytes(700_000),
  "ünï.trace": "",
  [`${"d".repeat(90)}/${"e".repeat(90)}.trace`]: "long",
  // 255 bytes, as many as a name has
  [`${"発".repeat(83)}.trace`]: "as long as can be",
};

describe("an archive", () => {
  test("is a tar that tar --zstd reads, member for member", async () => {
    const bytes = await archived(NAMES);
    const path = join(folder, "t.tar.zst");
    writeFileSync(path, bytes);
    mkdirSync(join(folder, "tar"));
    execFileSync("tar", ["--zstd", "-xf", path, "-C", join(folder, "tar")]);
    for (const [name, content] of Object.entries(NAMES)) {
      expect(readFileSync(join(folder, "tar", name)).equals(Buffer.from(content))).toBe(true);
    }
    const listed = execFileSync("tar", ["--zstd", "--quoting-style=literal", "-tf", path], {
      env: { ...process.env, LC_ALL: "C.UTF-8" },
    });
    expect(listed.toString().trim().split("\n")).toEqual(Object.keys(NAMES));
    expect(spawnSync("zstd", ["-tq", path]).status).toBe(0);
  });

  test("comes back as it was", async () => {
    const source = sourceOf(await archived(NAMES));
    await extractArchive(source, join(folder, "to"), []);
    for (const [name, content] of Object.entries(NAMES)) {
      expect(readFileSync(join(folder, "to", name)).equals(Buffer.from(content))).toBe(true);
    }
    expect(await listArchive(source)).toEqual(
      Object.entries(NAMES).map(([name, content]) => ({ name, size: content.length })),
    );
  });

  test("gives one trace out of a thousand without reading the others", async () => {
    const files = Object.fromEntries(
      Array.from({ length: 1000 }, (_, i) => [`t${i}.trace`, randomBytes(5_000)]),
    );
    const source = sourceOf(await archived(files));
    await extractArchive(source, join(folder, "to"), ["t500.trace"]);
    expect(readdirSync(join(folder, "to"))).toEqual(["t500.trace"]);
    expect(readFileSync(join(folder, "to/t500.trace")).equals(files["t500.trace"]!)).toBe(true);
    const index = source.size - 1000 * 5_000;
    expect(source.readBytes).toBeLessThan(index + 6_000);
    expect(source.size).toBeGreaterThan(20 * source.readBytes);
  });

  test("of another tool is read too, frame after frame", async () => {
    made(NAMES);
    const tars = Object.keys(NAMES).map((name) =>
      execFileSync("tar", ["-C", join(folder, "from"), "-cf", "-", name]),
    );
    // one tar, cut into frames with skippable ones between
    const end = Buffer.alloc(1024);
    const bodies = tars.map((tar) => tar.subarray(0, lastContent(tar)));
    const skippable = Buffer.from([0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    const bytes = Buffer.concat([
      skippable,
      ...[...bodies, end].flatMap((part) => [zstdCompressSync(part), skippable]),
    ]);
    await extractArchive(sourceOf(bytes), join(folder, "to"), []);
    for (const [name, content] of Object.entries(NAMES)) {
      expect(readFileSync(join(folder, "to", name)).equals(Buffer.from(content))).toBe(true);
    }
  });

  test("that is cut anywhere, or has a flipped bit, is refused or gives whole members", async () => {
    const bytes = await archived({ "a.trace": randomBytes(1_500), "b.trace": randomBytes(1_500) });
    const whole = new Map(
      ["a.trace", "b.trace"].map((name) => [name, readFileSync(join(folder, "from", name))]),
    );
    for (let at = 0; at < bytes.length; at += 97) {
      for (const damaged of [bytes.subarray(0, at), flipped(bytes, at)]) {
        const to = mkdtempSync(join(folder, "to-"));
        await extractArchive(sourceOf(damaged), to, []).catch((error: { code: string }) => {
          expect(["TRACE_CORRUPT", "MALFORMED_JSON", "INVALID_REQUEST", "NOT_FOUND"]).toContain(error.code);
        });
        for (const name of readdirSync(to))
          expect(readFileSync(join(to, name)).equals(whole.get(name)!)).toBe(true);
      }
    }
  });

  test("is not written where a name is taken twice, a file is a link, or changes its size", async () => {
    const [file] = made({ "a.trace": "x" });
    const output = join(folder, "o.tar.zst");
    await expect(writeArchive(output, [file!, file!])).rejects.toThrow(/member "a.trace" comes twice/);
    symlinkSync("a.trace", join(folder, "from/l.trace"));
    const link = { path: join(folder, "from/l.trace"), name: "l.trace" };
    await expect(writeArchive(output, [file!, link])).rejects.toThrow(
      /l\.trace cannot be archived: it is a link/,
    );
    await expect(writeArchive(output, [{ path: join(folder, "from"), name: "d" }])).rejects.toThrow(
      /no regular file/,
    );
    expect(readdirSync(folder).filter((name) => name !== "from")).toEqual([]);
  });
});

describe("nothing is written outside the folder, nor anything of an archive that would", () => {
  async function tarOf(
    entries: (Partial<Header> & { name: string; content?: string })[],
  ): Promise<Uint8Array> {
    const tar = pack();
    for (const { content = "", ...header } of entries) tar.entry(header, content);
    tar.finalize();
    const parts: Buffer[] = [];
    for await (const part of tar) parts.push(part as Buffer);
    return zstdCompressSync(Buffer.concat(parts));
  }

  const good = { name: "good.trace", content: "x" };
  const cases: [string, (Partial<Header> & { name: string; content?: string })[], RegExp][] = [
    ["a name with ..", [{ name: "../x.trace", content: "x" }], /leads out of the folder/],
    ["a name with .. in its middle", [{ name: "a/../../x.trace", content: "x" }], /leads out of the folder/],
    ["an absolute name", [{ name: "/tmp/dsec-escaped.trace", content: "x" }], /absolute name/],
    ["a name of other systems", [{ name: "a\\..\\x", content: "x" }], /another on other systems/],
    [
      "a link, then a file through it",
      [
        { name: "l", type: "symlink", linkname: "/tmp" },
        { name: "l/x.trace", content: "x" },
      ],
      /is a symlink/,
    ],
    ["a hard link to outside", [{ name: "h", type: "link", linkname: "/etc/passwd" }], /is a link/],
    [
      "a device",
      [{ name: "d", type: "character-device", devmajor: 1, devminor: 3 }],
      /is a character-device/,
    ],
    ["a pipe", [{ name: "p", type: "fifo" }], /is a fifo/],
    ["a name that comes twice", [good, good], /comes twice/],
    [
      "a name that is file and folder",
      [
        { name: "a", content: "x" },
        { name: "a/b", content: "x" },
      ],
      /is a file and a folder at once/,
    ],
    ["a name with a line end", [{ name: "a\nb", content: "x" }], /control characters/],
  ];
  test.each(cases)("%s", async (_, entries, message) => {
    for (const order of [
      [good, ...entries],
      [...entries, { ...good, name: "last.trace" }],
    ]) {
      const to = join(folder, `to-${randomBytes(3).toString("hex")}`);
      await expect(extractArchive(sourceOf(await tarOf(order)), to, [])).rejects.toThrow(message);
      expect(existsSync(to) ? readdirSync(to) : []).toEqual([]);
    }
    expect(existsSync("/tmp/dsec-escaped.trace")).toBe(false);
  });

  test.each(["../x", "/x", "a/../b", "a//b", "", "."])("an index that names %j", async (name) => {
    const bytes = indexed([{ name, content: "x" }]);
    await expect(extractArchive(sourceOf(bytes), join(folder, "to"), [])).rejects.toMatchObject({
      code: "INVALID_REQUEST",
    });
    expect(existsSync(join(folder, "to"))).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("an index that calls a member by another's name", async () => {
    const frame = frameOf("b.trace", "x");
    const bytes = indexed([{ name: "a.trace", content: "x", frame }]);
    await expect(extractArchive(sourceOf(bytes), join(folder, "to"), [])).rejects.toThrow(
      /is another member/,
    );
    expect(readdirSync(join(folder, "to"))).toEqual([]);
  });

  test("a frame that unpacks to more than its member's size, without unpacking it", async () => {
    const frame = zstdCompressSync(
      Buffer.concat([tarHeader({ name: "a.trace", size: 1, modifiedS: 0 }), Buffer.alloc(64 * 1024 * 1024)]),
    );
    const bytes = indexed([{ name: "a.trace", content: "x", frame }]);
    await expect(extractArchive(sourceOf(bytes), join(folder, "to"), [])).rejects.toThrow(
      /unpacks to more than its size/,
    );
    const bomb = indexed([{ name: "a.trace", content: "x", size: 1e12 }]);
    await expect(extractArchive(sourceOf(bomb), join(folder, "to"), [])).rejects.toThrow(
      /would unpack to 1000000000000 bytes/,
    );
    const foreign = zstdCompressSync(
      Buffer.concat([tarHeader({ name: "a", size: 2 ** 30, modifiedS: 0 }), Buffer.alloc(2 ** 30)]),
    );
    await expect(extractArchive(sourceOf(foreign), join(folder, "to"), [])).rejects.toThrow(
      /more than 1024 times its size/,
    );
    expect(readdirSync(join(folder, "to"))).toEqual([]);
  });

  test("through a link that stands in the folder, over a file that is there, or into a folder that is a link", async () => {
    const source = sourceOf(await archived({ "a/x.trace": "new" }));
    const outside = join(folder, "outside");
    mkdirSync(outside);
    const to = join(folder, "to");
    mkdirSync(to);
    symlinkSync(outside, join(to, "a"));
    await expect(extractArchive(source, to, [])).rejects.toMatchObject({ code: "INVALID_REQUEST" });
    rmSync(join(to, "a"));
    mkdirSync(join(to, "a"));
    writeFileSync(join(outside, "kept"), "old");
    linkSync(join(outside, "kept"), join(to, "a/x.trace"));
    await expect(extractArchive(source, to, [])).rejects.toMatchObject({ code: "TRACE_EXISTS" });
    expect(readFileSync(join(outside, "kept"), "utf8")).toBe("old");
    const link = join(folder, "link");
    symlinkSync(outside, link);
    await expect(extractArchive(source, link, [])).rejects.toThrow(/it is a link/);
    expect(readdirSync(outside)).toEqual(["kept"]);
  });

  function frameOf(name: string, content: string): Uint8Array {
    const body = Buffer.alloc(padded(content.length));
    body.write(content);
    return zstdCompressSync(Buffer.concat([tarHeader({ name, size: content.length, modifiedS: 0 }), body]));
  }

  function indexed(
    files: { name: string; content: string; frame?: Uint8Array; size?: number }[],
  ): Uint8Array {
    const frames: Uint8Array[] = [];
    let offset = 0;
    const members: ArchiveMember[] = files.map(
      ({ name, content, frame = frameOf(name, content), size = content.length }) => {
        const digest = `sha256:${createHash("sha256").update(content).digest("hex")}` as const;
        const member = { name, size, digest, offset, bytes: frame.length };
        frames.push(frame);
        offset += frame.length;
        return member;
      },
    );
    return Buffer.concat([...frames, indexFrame(members, nodeEngine.sha256)]);
  }
});

test("frames are cut at their borders, however the bytes arrive", () => {
  const contents = ["", "x", "abc".repeat(100_000), randomBytes(300_000)].map((content) =>
    Buffer.from(content),
  );
  const frames = contents.map((content, at) =>
    zstdCompressSync(content, { params: at % 2 === 0 ? {} : { 201: 1 } }),
  );
  const stream = Buffer.concat([
    frames[0]!,
    Buffer.from([0x5f, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]),
    ...frames.slice(1),
  ]);
  for (const chunkBytes of [1, 5, 4096, stream.length]) {
    const cutter = new FrameCutter("x");
    const found: Buffer[][] = [[]];
    for (let at = 0; at < stream.length; at += chunkBytes) {
      for (const part of cutter.push(stream.subarray(at, at + chunkBytes))) {
        if (part.kind === "end") found.push([]);
        else found.at(-1)!.push(Buffer.from(part.bytes));
      }
    }
    cutter.end();
    expect(found.pop()).toEqual([]);
    expect(found.map((parts) => Buffer.concat(parts).equals(frames[found.indexOf(parts)]!))).toEqual(
      frames.map(() => true),
    );
  }
});

function flipped(bytes: Uint8Array, at: number): Uint8Array {
  const copy = bytes.slice();
  copy[at]! ^= 0x10;
  return copy;
}

/** Where a tar of one member ends, without its blocks of zeros. */
function lastContent(tar: Buffer): number {
  let end = tar.length;
  while (end > 1024 && tar.subarray(end - 512, end).every((byte) => byte === 0)) end -= 512;
  return end;
}
