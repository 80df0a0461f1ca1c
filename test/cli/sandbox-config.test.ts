import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { withSandboxConfig } from "#cli/sandbox-config.ts";

let folder: string;
let count = 0;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "dsec-config-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function load(source: string, task: object = {}) {
  const file = join(folder, `sandbox-${++count}.config.ts`);
  await writeFile(file, source);
  return withSandboxConfig({ command: ["true"], ...task }, file);
}
const tools = '[{ name: "a", kind: "exec", command: ["true"] }]';

test("an object, a function of the context and an asynchronous one are all a config", async () => {
  const expected = { command: ["true"], tools: [{ name: "a", kind: "exec", command: ["true"] }] };
  expect(await load(`export default { tools: ${tools} };`)).toMatchObject(expected);
  const conditional = `type Context = { task: { command: string[] }; env: Record<string, string | undefined> };
    export default async ({ task, env }: Context) => task.command[0] === "true" && env.PATH ? { tools: ${tools} } : {};`;
  expect(await load(conditional)).toMatchObject(expected);
  expect((await load(conditional, { command: ["false"] })).tools).toBeUndefined();
});

test("what the command line says goes before the config, member by member", async () => {
  const config = `export default { timeout_ms: 5, env: { A: "1", B: "1" }, outputs: ["x"], resources: { cpu_cores: 2, pids: 9 } };`;
  const task = { timeout_ms: 7, env: { B: "2" }, outputs: ["y"], resources: { pids: 5 } };
  expect(await load(config, task)).toEqual({
    command: ["true"],
    timeout_ms: 7,
    env: { A: "1", B: "2" },
    outputs: ["x", "y"],
    resources: { cpu_cores: 2, pids: 5 },
    labels: {},
  });
});

test("how much is recorded is said by a value, or decided by a function of its own, and the command line goes before it", async () => {
  const fixed = `export default { trace: { level: "error_only", memory_snapshot_interval: 10 } };`;
  expect((await load(fixed)).trace).toEqual({ level: "error_only", memory_snapshot_interval: 10 });
  expect((await load(fixed, { trace: { level: "full" } })).trace).toEqual({
    level: "full",
    memory_snapshot_interval: 10,
  });
  const decided = `type Context = { task: { labels?: Record<string, string> } };
    export default { trace: async ({ task }: Context) => ({ level: task.labels?.debug ? "full" : "dynamic" }) };`;
  expect((await load(decided)).trace).toEqual({ level: "dynamic" });
  expect((await load(decided, { labels: { debug: "1" } })).trace).toEqual({ level: "full" });
});

test.each([
  ["export default 7;", /must have an object/],
  ["export default () => null;", /must have an object/],
  ["export const tools = [];", /must have an object/],
  ["export default { tool: [] };", /has tool; it may have tools, policy/],
  ["export default { command: ['rm'] };", /has command/],
  ["export default { tools: [ };", /failed/],
  ["export default () => { throw new Error('no key') };", /failed: no key/],
])("a config %s is refused, naming the file and why", async (source, why) => {
  const error = await load(source).catch((error: Error) => error);
  expect(error).toMatchObject({ code: "CONFIG_INVALID", message: expect.stringMatching(why) });
  expect((error as Error).message).toContain(folder);
});
