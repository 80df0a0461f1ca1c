import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { newId } from "#core/ids.ts";
import { Place } from "#executor/place.ts";
import { Places } from "#executor/places.ts";

let directory: string;
let attempts: string;
let ahead: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "dsec-places-"));
  attempts = join(directory, "attempts");
  ahead = join(directory, "places");
  await mkdir(attempts);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const hold = () => ({ lease_id: newId("lease"), fence: 1 });
const trusted = (place: Place) => readFileSync(join(place.folder.path, "trust/ca.pem"), "utf8");

/** Whole ones, each with its socket and its certificate. */
function readyIn(folder: string): string[] {
  return readdirSync(folder).filter((name) =>
    ["tool.sock", "trust/ca.pem"].every((part) => existsSync(join(folder, name, part))),
  );
}

/** Enough for one to be taken while the last is still being made. */
const severalReady = () => vi.waitUntil(() => readyIn(ahead).length > 2, { timeout: 30_000 });

async function ask(place: Place): Promise<{ status: number; body: string }> {
  const asking = request({ socketPath: join(place.folder.path, "tool.sock"), path: "/" }).end();
  const [response] = await once(asking, "response");
  return { status: response.statusCode, body: await text(response) };
}

test("a place is one attempt's: nobody else has its folder, its socket or its authority, before or after", async () => {
  const places = await Places.open(ahead, attempts);
  places.prepare();
  await severalReady();
  const holds = Array.from({ length: 6 }, hold); // more than are ready
  const taken = await Promise.all(holds.map((hold) => places.take(hold)));
  expect(readdirSync(attempts).sort()).toEqual(holds.map(({ lease_id }) => `${lease_id}_1`).sort());
  expect(new Set(taken.map(trusted)).size).toBe(6);
  for (const [at, place] of taken.entries()) {
    expect(place.folder.hold).toEqual(holds[at]);
    expect(trusted(place)).toBe(place.authority.certificate);
    expect(statSync(place.folder.path).mode & 0o777).toBe(0o700);
    expect((await ask(place)).status).toBe(429);
    place.door.open(async () => ({ status: 200, headers: {}, body: `${at}` }));
  }
  for (const [at, place] of taken.entries()) expect(await ask(place)).toEqual({ status: 200, body: `${at}` });
  await places.close();
  await Promise.all(taken.map((place) => place.remove()));
  expect([readdirSync(attempts), readdirSync(ahead)]).toEqual([[], []]);
});

test("an authority that waited too long for its sandbox is nobody's", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  try {
    const places = await Places.open(ahead, attempts);
    places.prepare();
    await severalReady();
    const old = readyIn(ahead).map((name) => readFileSync(join(ahead, name, "trust/ca.pem"), "utf8"));
    vi.setSystemTime(Date.now() + 24 * 3_600_000);
    const place = await places.take(hold());
    expect(place.authority.isFresh).toBe(true);
    expect(old).not.toContain(trusted(place));
    await place.remove();
    await places.close();
    expect(readdirSync(ahead)).toEqual([]);
  } finally {
    vi.useRealTimers();
  }
});

test("what a killed executor left of places that nobody had taken is gone with its next life", async () => {
  await mkdir(ahead);
  const left = await Place.make(ahead);
  const places = await Places.open(ahead, attempts);
  expect(readdirSync(ahead)).toEqual([]);
  await places.close();
  await left.door.close();
});

test("a folder that cannot be made is told to the attempt that needs it, and to the next only if it still cannot", async () => {
  const places = await Places.open(ahead, attempts);
  await rm(ahead, { recursive: true });
  await expect(places.take(hold())).rejects.toThrow("ENOENT");
  await mkdir(ahead);
  const place = await places.take(hold());
  expect(trusted(place)).toBe(place.authority.certificate);
  await place.remove();
  await places.close();
});
