import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import type { TaskId } from "#core/ids.ts";
import type { MemoryEvent } from "#core/wire/memory.ts";
import { serveSocket } from "#executor/channel/server.ts";
import { createMemory, type MemoryIdentity } from "#executor/memory/memory.ts";
import { createMemoryRoutes } from "#executor/memory/routes.ts";
import { SqliteDatabase } from "#executor/memory/sqlite-database.ts";
import { createSqliteMemoryStore } from "#executor/memory/sqlite-store.ts";
import { createMessageBus } from "#executor/messages/bus.ts";
import { ChannelRig } from "../channel/channel-under-test.ts";

const ROOT = join(import.meta.dirname, "../../..");
const identity: MemoryIdentity = {
  taskId: "task_01jpython" as TaskId,
  sandboxId: "sandbox_python",
  owner: "key_01jowner",
  grants: [
    { name: "notes", access: "write" },
    { name: "rules", access: "read" },
  ],
};

test("a Python program in a sandbox can lose no change and no type", async () => {
  const seed = Number(process.env.SEED ?? randomInt(2 ** 31));
  console.log(`seed ${seed}`);
  const folder = await mkdtemp(join(tmpdir(), "dsec-python-"));
  const database = new SqliteDatabase(join(folder, "memory.db"));
  const events: MemoryEvent[] = [];
  const memory = createMemory({
    store: createSqliteMemoryStore(database),
    onEvent: (event) => events.push(event),
  });
  const rules: MemoryIdentity = { ...identity, grants: [{ name: "rules", access: "write" }] };
  await memory.view(rules, "rules").put("limit", "3.0");
  await memory.view(rules, "rules").put("heap", "[]");
  const schema = { type: "object", required: ["score"], properties: { score: { type: "number" } } };
  await using rig = await ChannelRig.open();
  const { lease } = await rig.channel({ channels: [{ name: "scores", schema }] });
  const messages = createMessageBus(rig.gateway.messages, lease, "1");

  const server = await serveSocket(folder, "tool.sock", createMemoryRoutes({ memory, messages, identity }));

  const python = spawn(
    "/usr/bin/python3",
    ["-W", "error", join(import.meta.dirname, "test_dsec_memory.py")],
    {
      env: {
        PATH: process.env.PATH,
        PYTHONPATH: join(ROOT, "sdk/python"),
        PYTHONDONTWRITEBYTECODE: "1",
        DSEC_SOCKET: join(folder, "tool.sock"),
        DSEC_TEST_SEED: String(seed),
      },
      stdio: ["ignore", "inherit", "pipe"],
    },
  );
  const [report, [exitCode]] = await Promise.all([text(python.stderr), once(python, "exit")]);
  expect(exitCode, report).toBe(0);
  expect(report).toMatch(/Ran [3-9]\d tests/);
  expect(report).not.toContain("skipped");

  // Each event says where in the program it came from, and the writes alone lead to what is there.
  const namespace = memory.view(identity).namespace;
  const own = events.filter(
    (event) => event.namespace === namespace && event.source.sandbox === "sandbox_python",
  );
  const appended = own.find((event) => event.op === "put" && event.source.origin?.endsWith(" append"));
  expect(appended?.source.origin).toMatch(/^test_dsec_memory\.py:\d+ append$/);
  expect(events.map((event) => event.seq)).toEqual(events.map((_, at) => at + 1));
  const { expected, actual } = await memory.audit(namespace);
  expect(actual).toBe(expected);

  await server.close();
  database.close();
  await rm(folder, { recursive: true });
});
