import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { bodyOf } from "#trace/events/codec.ts";
import type { EventBody } from "#trace/events/event.ts";
import { FileSink, openTraceFile, sealTrajectory, writeTrace } from "#trace/node/files.ts";
import { Random } from "../events/random-events.ts";
import { eventsOf, expectSame, HEADER, made, randomBodies } from "./made.ts";

const WRITES = join(import.meta.dirname, "writes-until-full.ts");
const folder = mkdtempSync(join(tmpdir(), "dsec-trace-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** In a mount namespace of its own, with the folder a tmpfs of 10 MiB; what it leaves is copied out before that goes. */
function onFullDisk(script: string): string {
  const disk = join(folder, "disk");
  mkdirSync(disk, { recursive: true });
  const shell = `mount -t tmpfs -o size=10m tmpfs ${disk} && ${script} && cp -a ${disk}/. ${folder}/out/`;
  mkdirSync(join(folder, "out"), { recursive: true });
  return execFileSync("unshare", ["--mount", "--map-root-user", "sh", "-euc", shell]).toString();
}

test("a full disk stops a writer with an error, leaves every whole flush readable, and once it has room nothing is missing (B65)", async () => {
  const disk = join(folder, "disk");
  const told = JSON.parse(onFullDisk(`"${process.execPath}" ${WRITES} ${disk}/a.traj`));
  expect(told.whenFull.code).toBe("TRACE_UNWRITABLE");
  expect(told.whenFull.message).toMatch(
    /a\.traj cannot be written: .*; free space on its disk and try again/,
  );
  expect(told.unsealed).toBe("TRACE_UNWRITABLE");
  // neither the trace that did not fit nor a temporary name is left
  expect(readdirSync(join(folder, "out")).sort()).toEqual(["a.traj"]);
  const file = await openTraceFile(join(folder, "out/a.traj"));
  expect(file.damage).toBe(null);
  const [segment] = file.segments;
  expect(segment!.count).toBe(told.flushed);
  expect(told.flushed).toBeGreaterThan(told.whenFull.flushed + 120);
  await segment!.verify();
  await file.close();
  // as it was when the disk was full: the very bytes that were there
  const full = readFileSync(join(folder, "out/a.traj")).subarray(0, told.whenFull.size);
  writeFileSync(join(folder, "full.traj"), full);
  const atFull = await openTraceFile(join(folder, "full.traj"));
  expect(atFull.damage).toBe(null);
  expect(atFull.segments[0]!.count).toBe(told.whenFull.flushed);
  await atFull.close();
});

test("a writer that is killed leaves all it had flushed, and sealing keeps that and says what it leaves out", async () => {
  for (const pauseMs of [0, 30, 80]) {
    const path = join(folder, `killed-${pauseMs}.traj`);
    const child = spawn(process.execPath, [WRITES, path, "--forever"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let said = "";
    child.stdout.on("data", (chunk: Buffer) => {
      said += chunk;
    });
    await once(child.stdout, "data");
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    child.kill("SIGKILL");
    await once(child, "close");
    const flushed = Number(said.slice(0, said.lastIndexOf("\n")).split("\n").at(-1));
    const file = await openTraceFile(path);
    expect(file.segments[0]!.count).toBeGreaterThanOrEqual(flushed);
    await file.segments[0]!.verify();
    // the kill may have cut a write in the middle, so the whole flushes may end before the file does
    const left = readFileSync(path);
    const whole = left.subarray(0, file.damage?.offset ?? left.length);
    // a torn end, as a power cut leaves it
    writeFileSync(`${path}.torn`, Buffer.concat([whole, whole.subarray(whole.length - 700)]));
    const sealed = await sealTrajectory(`${path}.torn`, `${path}.trace`);
    expect(sealed).toMatchObject({ count: file.segments[0]!.count, chain_head: file.segments[0]!.chainHead });
    expect(sealed.damage?.offset).toBe(whole.length);
    await file.close();
  }
});

test("a trace is sealed with the same events and the same chain as its trajectory, and appears whole", async () => {
  const bodies = randomBodies(new Random(7), 800);
  const path = join(folder, "one.traj");
  writeFileSync(path, made(bodies, { flushEvery: 3, sealed: false }));
  const sealed = await sealTrajectory(path, join(folder, "one.trace"));
  expect(sealed.damage).toBe(null);
  expect(sealed.size).toBeLessThan(readFileSync(path).length / 2);
  const trace = await openTraceFile(join(folder, "one.trace"));
  expectSame((await eventsOf(trace)).map(bodyOf), bodies, "sealed");
  expect(await trace.segments[0]!.verify()).toEqual({ events: 800, chain_head: sealed.chain_head });
  await trace.close();
  // sealing what is sealed changes no byte
  const again = await sealTrajectory(join(folder, "one.trace"), join(folder, "again.trace"));
  expect(again.digest).toBe(sealed.digest);
});

test("of two writers on one file the second is refused, and a trace never replaces a file", async () => {
  const path = join(folder, "two.traj");
  const first = new FileSink(path);
  expect(() => new FileSink(path)).toThrow(expect.objectContaining({ code: "TRACE_EXISTS" }));
  first.write(made([]));
  first.close();
  const event: EventBody = { type: "reward", components: [], sum: 1 };
  await expect(writeTrace(path, HEADER, [{ ...event, t_us: 0, wall_us: 0 }])).rejects.toMatchObject({
    code: "TRACE_EXISTS",
    message: expect.stringMatching(/two\.traj exists already; choose another name/),
  });
  expect(readdirSync(folder).filter((name) => name.startsWith("."))).toEqual([]);
});

test("a frame that rotted in the middle of a trajectory: what was flushed before it is kept", async () => {
  const bodies = randomBodies(new Random(8), 500);
  const bytes = Uint8Array.from(made(bodies, { flushEvery: 20, sealed: false }));
  const middle = Math.floor(bytes.length / 2);
  bytes.fill(0, middle, middle + 40);
  const path = join(folder, "rotten.traj");
  writeFileSync(path, bytes);
  const sealed = await sealTrajectory(path, join(folder, "rotten.trace"));
  expect(sealed.count % 20).toBe(0);
  expect(sealed.count).toBeGreaterThan(60);
  expect(sealed.damage!.offset).toBeLessThanOrEqual(middle);
  const trace = await openTraceFile(join(folder, "rotten.trace"));
  expectSame((await eventsOf(trace)).map(bodyOf), bodies.slice(0, sealed.count), "kept");
  await trace.close();
});
