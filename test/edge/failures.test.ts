/// <reference types="@cloudflare/vitest-pool-workers/types" />
/** What Cloudflare fails to do once leaves nothing behind, and nothing undone. */
import { env, runInDurableObject } from "cloudflare:test";
import { expect, test, vi } from "vitest";
import type { EdgeEnvironment } from "#gateway/edge/environment.ts";
import { createR2Blobs } from "#gateway/edge/r2-blobs.ts";

const { BLOBS, GATEWAY, ISSUER } = env as unknown as EdgeEnvironment;
/** More than one part of an upload. */
const BYTES = new Uint8Array(9 * 1024 * 1024);

test("content that is complete and does not get its name is gone, and can be sent again", async () => {
  const put = vi.fn(BLOBS.put.bind(BLOBS)).mockRejectedValueOnce(new Error("R2 is away"));
  const bucket = new Proxy(BLOBS, {
    get(target, name) {
      if (name === "put") return put;
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const send = () => createR2Blobs(bucket).put(null, new Blob([BYTES]).stream(), BYTES.length);
  await expect(send()).rejects.toThrow("R2 is away");
  expect((await BLOBS.list({ prefix: "incoming/" })).objects).toEqual([]);
  const { digest } = await send();
  expect(await createR2Blobs(BLOBS).size(digest)).toBe(BYTES.length);
  expect((await BLOBS.list({ prefix: "incoming/" })).objects).toEqual([]);
});

test("a room whose alarm could not be set sets it with the next request", async () => {
  const room = GATEWAY.get(GATEWAY.idFromName("room-0"));
  await runInDurableObject(room, async (instance, { storage }) => {
    const setAlarm = vi.spyOn(storage, "setAlarm").mockRejectedValueOnce(new Error("storage is away"));
    const ask = async () => (await instance.fetch(new Request(`${ISSUER}/healthz`))).status;
    expect(await ask()).toBe(500);
    expect(await ask()).toBe(200);
    expect(setAlarm).toHaveBeenCalledTimes(2);
    expect(await storage.getAlarm()).not.toBeNull();
  });
});
