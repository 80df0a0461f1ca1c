import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openTraceFile } from "#trace/node/files.ts";
import { Random } from "../events/random-events.ts";
import { eventsOf, made, randomBodies } from "./made.ts";

const folder = mkdtempSync(join(tmpdir(), "dsec-trace-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("what is no regular file is refused and not waited for, as a pipe without a writer would be", async () => {
  const pipe = join(folder, "pipe.trace");
  execFileSync("mkfifo", [pipe]);
  mkdirSync(join(folder, "folder.trace"));
  for (const path of [pipe, join(folder, "folder.trace"), "/dev/zero"]) {
    await expect(openTraceFile(path)).rejects.toMatchObject({
      code: "INVALID_REQUEST",
      message: `${path} is no regular file`,
    });
  }
  await expect(openTraceFile(join(folder, "absent.trace"))).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("a trace that was closed is not read any more: another file may have its descriptor", async () => {
  const [path, other] = [join(folder, "one.trace"), join(folder, "other.trace")];
  const random = new Random(11);
  writeFileSync(path, made(randomBodies(random, 20)));
  writeFileSync(other, made(randomBodies(random, 30)));
  const closed = await openTraceFile(path);
  await closed.close();
  const file = await openTraceFile(other);
  await expect(eventsOf(closed)).rejects.toMatchObject({
    code: "INTERNAL",
    message: expect.stringMatching(/one\.trace is read after it was closed/),
  });
  // and closing it again closes nothing else
  await closed.close();
  expect(await eventsOf(file)).toHaveLength(30);
  await file.close();
});
