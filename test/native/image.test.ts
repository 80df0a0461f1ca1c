import { execFileSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NATIVE_PROGRAMS, plan, run, runKept, type TestLauncher, testLauncher } from "./sandboxes.ts";

let host: TestLauncher;
let scratch: string;
let image: string;

/** An image that holds one static program and a file only its owner may read. */
beforeAll(async () => {
  const program = join(NATIVE_PROGRAMS, "guests/small");
  scratch = mkdtempSync(join(tmpdir(), "dsec-image-"));
  const folder = join(scratch, "root");
  mkdirSync(join(folder, "bin"), { recursive: true });
  writeFileSync(join(folder, "bin/small"), readFileSync(program), { mode: 0o755 });
  writeFileSync(join(folder, "private"), "only root's\n", { mode: 0o600 });
  image = join(scratch, "image.erofs");
  execFileSync("mkfs.erofs", ["-x-1", image, folder], { stdio: "ignore" });
  host = await testLauncher();
});
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  rmSync(scratch, { recursive: true });
});

const erofs = (path: string) => ({ kind: "erofs", path }) as const;

test("an EROFS image is the root, with nothing of the host in it", async () => {
  const { sandbox, stdout, end } = await run(host.launcher, ["/bin/small", "list", "/"], {
    image: erofs(image),
  });
  expect(end.exitCode).toBe(0);
  expect(stdout.toString().trim().split("\n").sort()).toEqual([
    "bin",
    "dev",
    "private",
    "proc",
    "sys",
    "tmp",
    "work",
  ]);
  expect(sandbox.observation.rootFilesystem).toBe("overlay");
});

test("its root's files belong to the sandbox's root", async () => {
  const { stdout } = await run(host.launcher, ["/bin/small", "read", "/private"], { image: erofs(image) });
  expect(stdout.toString()).toBe("only root's\n");
});

test("it is written to without being changed, by many at once", async () => {
  const before = readFileSync(image);
  const runs = Array.from({ length: 8 }, () =>
    runKept(host.launcher, ["/bin/small", "append", "/private"], { image: erofs(image) }),
  );
  for (const { sandbox, end, stdout } of await Promise.all(runs)) {
    expect([end.exitCode, stdout.toString()]).toEqual([0, "only root's\nmore\n"]);
    await sandbox.destroy();
  }
  expect(readFileSync(image).equals(before)).toBe(true);
});

test("a file of the same name with another content is another image", async () => {
  const path = join(scratch, "replaced.erofs");
  for (const text of ["one\n", "two\n"]) {
    const folder = join(scratch, `root-${text.trim()}`);
    mkdirSync(join(folder, "bin"), { recursive: true });
    writeFileSync(join(folder, "bin/small"), readFileSync(join(scratch, "root/bin/small")), { mode: 0o755 });
    writeFileSync(join(folder, "private"), text);
    rmSync(path, { force: true });
    execFileSync("mkfs.erofs", ["-x-1", path, folder], { stdio: "ignore" });
    const { stdout } = await run(host.launcher, ["/bin/small", "read", "/private"], { image: erofs(path) });
    expect(stdout.toString()).toBe(text);
  }
});

test("a file that is no EROFS, or only half of one, is refused with its own code", async () => {
  const broken = join(scratch, "broken.erofs");
  writeFileSync(broken, "not an image".repeat(1000));
  await expect(host.launcher.launch(plan(["/bin/small"], { image: erofs(broken) }))).rejects.toMatchObject({
    code: "IMAGE_INVALID",
  });
  writeFileSync(broken, readFileSync(image).subarray(0, 1500));
  await expect(host.launcher.launch(plan(["/bin/small"], { image: erofs(broken) }))).rejects.toMatchObject({
    code: "IMAGE_INVALID",
  });
  await expect(host.launcher.launch(plan(["/bin/small"], { image: erofs(scratch) }))).rejects.toMatchObject({
    code: "IMAGE_INVALID",
  });
  await expect(
    host.launcher.launch(plan(["/bin/small"], { image: erofs(join(scratch, "none")) })),
  ).rejects.toMatchObject({
    code: "IMAGE_NOT_FOUND",
  });
});

test("more images than are kept mounted: old ones go, a sandbox that runs from one keeps it", async () => {
  const copies = Array.from({ length: 70 }, (_, i) => join(scratch, `copy-${i}.erofs`));
  for (const copy of copies) copyFileSync(image, copy);
  const fifo = join(scratch, "hold");
  execFileSync("mkfifo", [fifo]);
  const mounts = [{ source: fifo, target: "/hold" }];
  const holder = await host.launcher.launch(
    plan(["/bin/small", "read", "/hold"], { image: erofs(copies[0]!), mounts }),
  );
  for (const copy of [...copies, copies[0]!]) {
    const { stdout } = await run(host.launcher, ["/bin/small", "read", "/private"], { image: erofs(copy) });
    expect(stdout.toString()).toBe("only root's\n");
  }
  holder.kill();
  await holder.ended;
  const descriptor = holder.openOutput(Buffer.from("/private"));
  expect(readFileSync(descriptor!, "utf8")).toBe("only root's\n");
  closeSync(descriptor!);
  await holder.destroy();
});

test("a removed image leaves no trace on the host", async () => {
  chmodSync(image, 0o600);
  const mounts = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  expect(mounts.filter((line) => line.includes(host.stateDirectory) || line.includes(scratch))).toEqual([]);
});
