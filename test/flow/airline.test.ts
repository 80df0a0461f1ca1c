/**
 * The whole system on real input: every recorded airline episode is scored by a Python agent in a sandbox of its
 * own, through `dsec gateway` on PostgreSQL and `dsec executor`, which is killed half-way.
 */
import { readFileSync } from "node:fs";
import { createLocalJWKSet, jwtVerify } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sha256 } from "#core/json.ts";
import type { Task } from "#core/wire/tasks.ts";
import { type Client, createClient } from "#sdk/client.ts";
import { EPISODES, type Episode, toolSteps } from "./episodes.ts";
import { EXECUTOR_KILL_TIMEOUT_MS, leftovers, type System, startSystem } from "./system.ts";

/** How long every tenth agent waits: longer than it takes to kill an executor after such a one was seen. */
const LONG_S = 4;

type Call = { tool: string; args: Record<string, unknown> };

let system: System;
let client: Client;
beforeAll(async () => {
  system = await startSystem();
  client = createClient({ gateway: system.url, apiKey: system.adminKey });
});
afterAll(async () => {
  await system?.stop();
  expect(await leftovers(system.folder)).toEqual([]);
});

test.runIf(EPISODES)(
  "150 episodes are each scored exactly once and attested, though the executor is killed half-way",
  { timeout: EXECUTOR_KILL_TIMEOUT_MS },
  async () => {
    const episodes = EPISODES!;
    expect(episodes).toHaveLength(150);
    const agent = await client.artifacts.put(readFileSync(`${import.meta.dirname}/agents/score_episode.py`));

    const submitted = await Promise.all(
      episodes.map(async (episode, index) => {
        const wait_s = index % 10 === 0 ? LONG_S : 0;
        const input = await client.artifacts.put(new TextEncoder().encode(JSON.stringify(episode)));
        return client.tasks.submit({
          command: ["/usr/bin/python3", "/agent/score.py", "/input/episode.json", String(wait_s)],
          inputs: [
            { artifact: agent.artifact, mount_path: "/agent/score.py" },
            { artifact: input.artifact, mount_path: "/input/episode.json" },
          ],
          outputs: ["output.json"],
          resources: { cpu_cores: 0.2, memory_mb: 64, pids: 16, disk_mb: 16 },
          retries: 3,
          labels: { episode: episode.id, wait_s: String(wait_s) },
          nonce: `nonce-of-${episode.id}`,
        });
      }),
    );

    // and in the midst of a command, not between two
    await until(
      async () => (await count("succeeded")) >= episodes.length / 2 && (await count("running", true)) > 0,
    );
    await system.killExecutor();
    await system.startExecutor();

    const tasks = await Promise.all(submitted.map(({ id }) => client.tasks.wait(id)));
    const keys = createLocalJWKSet((await client.jwks()) as Parameters<typeof createLocalJWKSet>[0]);
    for (const [index, task] of tasks.entries()) {
      const episode = episodes[index]!;
      expect(task, episode.id).toMatchObject({ state: "succeeded", result: { outcome: { exit_code: 0 } } });
      await expectEndedOnce(task);

      const output = task.result!.outputs.find(({ path }) => path === "/work/output.json")!;
      const bytes = await client.tasks.output(task.id, output);
      const { tool_call_accuracy: scored } = JSON.parse(new TextDecoder().decode(bytes));
      expect(scored, episode.id).toBeCloseTo(accuracyOf(episode), 12);

      // as a stranger would: a stock JOSE library, the JWKS, and nothing else of this project
      const attestations = await client.tasks.attestations(task.id);
      const deciding = attestations.find(({ id }) => id === task.attestation_id)!;
      const { payload, protectedHeader } = await jwtVerify(deciding.jwt, keys, {
        issuer: system.issuer,
        typ: "dsec-attestation+jwt",
      });
      expect(protectedHeader.alg).toMatch(/^(EdDSA|ES256)$/);
      expect(payload).toMatchObject({ sub: task.id, eat_nonce: `nonce-of-${episode.id}` });
      const { result } = payload.dsec as { result: { outputs: { digest: string }[] } };
      expect(result.outputs.map(({ digest }) => digest)).toEqual([await sha256(bytes)]);
    }
    expect(
      tasks.some(({ attempts }) => attempts > 1),
      "the kill hit no running task",
    ).toBe(true);
  },
);

/** One final state among its events, and no two attempts that both had a result. */
async function expectEndedOnce(task: Task): Promise<void> {
  const finals: string[] = [];
  for await (const event of client.tasks.events(task.id)) {
    if (event.type === "state" && !["queued", "leased", "running"].includes(event.state))
      finals.push(event.state);
  }
  expect(finals, task.id).toEqual(["succeeded"]);
  const attestations = await client.tasks.attestations(task.id);
  expect(attestations.map(({ id }) => id)).toEqual([task.attestation_id]);
}

async function count(state: Task["state"], long = false): Promise<number> {
  let found = 0;
  const label = long ? { label: `wait_s=${LONG_S}` } : {};
  for await (const _ of client.tasks.all({ state, ...label })) found++;
  return found;
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 50));
}

const STATE_CHANGING =
  /^(book_reservation|cancel_reservation|send_certificate|update_reservation_(baggages|flights|passengers))$/;

/** The score computed apart from the agent: 2·TP / (|P| + |G|) over multisets. */
function accuracyOf(episode: Episode): number {
  const key = ({ tool, args }: Call) => `${tool} ${sorted(args)}`;
  const made = toolSteps(episode).filter(
    ({ tool, response }) => STATE_CHANGING.test(tool) && !response.startsWith("Error"),
  );
  const expected = episode.expected_actions.filter(({ tool }) => STATE_CHANGING.test(tool));
  const left = made.map(key);
  let matched = 0;
  for (const action of expected) {
    const index = left.indexOf(key(action));
    if (index < 0) continue;
    left.splice(index, 1);
    matched++;
  }
  const total = made.length + expected.length;
  return total === 0 ? 1 : (2 * matched) / total;
}

function sorted(value: unknown): string {
  return JSON.stringify(value, (_, member) =>
    member !== null && typeof member === "object" && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}
