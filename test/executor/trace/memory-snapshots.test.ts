import { expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import type { EventLog } from "#executor/channel/event-log.ts";
import { MemorySnapshots } from "#executor/trace/memory-snapshots.ts";

test("a snapshot that could not be taken is left out, and the next one is taken", async () => {
  let version = 0;
  const memory = {
    async snapshot() {
      version++;
      if (version === 1) throw new DsecError("STORE_UNAVAILABLE", "memory is away");
      return { version, digest: "sha256:0" as Digest, json: "{}", lifetimesJson: null };
    },
  };
  const versions: number[] = [];
  const log = { append: (_type: string, members: { version: number }) => versions.push(members.version) };
  const snapshots = new MemorySnapshots(memory, "task:a", log as unknown as EventLog, 1);
  snapshots.wrote();
  snapshots.wrote();
  await snapshots.close();
  expect(versions).toEqual([2]);
  // Of what an earlier attempt left the deltas would not tell.
  version = 0;
  await expect(snapshots.begin()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
});
