/** Tasks that lose their executor after they did something, and do it no second time. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { TaskId } from "#core/ids.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";
import type { Fetch } from "#executor/gateway-calls.ts";
import { eventually, Rig } from "#test/executor/executor-under-test.ts";
import { openTestProxy, reach, type TestProxy } from "#test/gateway/proxy/proxy-under-test.ts";
import { readTrace } from "#test/support/trace-file.ts";

let proxy: TestProxy;
let rig: Rig;
let url: string;
let port: number;
/** Bodies of what was done, in order. */
let done: string[] = [];
let gate: "closed" | "open" = "closed";
/** How often an agent has looked at the gate: it has the answers of what it did before. */
let looks = 0;
beforeAll(async () => {
  proxy = await openTestProxy();
  ({ url, port } = await proxy.serve(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    if (request.url!.startsWith("/gate")) {
      looks++;
      response.end(gate);
      return;
    }
    done.push(body);
    if (request.url !== "/stuck" || gate === "open") response.end(`done ${done.length}`);
  }));
  rig = await Rig.open(proxy.gateway);
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await proxy?.close();
});

const tools = (): TaskRequest["tools"] => [
  { name: "act", kind: "http", method: "POST", url: `${url}/act` },
  { name: "stuck", kind: "http", method: "POST", url: `${url}/stuck` },
  { name: "gate", kind: "http", url: `${url}/gate`, read_only: true },
];

/**
 * Runs an agent whose executor ends once `due`, and which goes on with another.
 * @param fetch that other's way to the gateway
 */
async function interrupted(
  script: string,
  due: (id: string) => boolean | Promise<boolean>,
  request: Partial<TaskRequest> = {},
  fetch: Fetch = rig.fetch,
) {
  done = [];
  looks = 0;
  gate = "closed";
  const first = await rig.start();
  const { id } = await rig.submit({
    ...{ command: ["sh", "-c", script], policy: reach(port), timeout_ms: 60_000 },
    ...{ tools: tools(), fast_forward: true, retries: 0, ...request },
  });
  await eventually(() => due(id));
  await first.close();
  gate = "open";
  const second = await rig.start({ fetch });
  const { task, stdout, stderr } = await rig.finished(id);
  await second.close();
  const answer = await rig.client.send("GET", `/v1/tasks/${id}/trace`);
  const events = answer.ok ? (await readTrace(new Uint8Array(await answer.arrayBuffer()))).events : [];
  return { task, out: stdout.toString(), err: stderr.toString(), events };
}

const WAIT = "until dsec-tool exec --tool gate | grep -q open; do sleep 0.05; done";

test("an attempt after one that was pre-empted is given what that one was given, and goes on where it ended", async () => {
  const { task, out, events } = await interrupted(
    `
dsec-tool exec --tool act --input '{"n":1}'
dsec-tool memory set seen '[1]'; dsec-tool memory get seen
dsec-tool exec --tool act --input '{"n":2}'
${WAIT}
dsec-tool exec --tool act --input '{"n":3}'
dsec-tool memory get seen
`,
    () => looks > 1,
  );
  expect(task.state).toBe("succeeded");
  expect(done).toEqual(['{"n":1}', '{"n":2}', '{"n":3}']);
  expect(out).toBe('"done 1"\n[1]\n"done 2"\n"done 3"\n[1]\n'.replaceAll('"', ""));
  const ends = events.filter((event) => event.type === "tool_call_end");
  expect(ends.filter(({ replayed }) => replayed).length).toBeGreaterThanOrEqual(2);
  expect(ends.at(-1)).toMatchObject({
    state: "answered",
    replayed: null,
    call_seq: ends.filter(({ replayed }) => !replayed).length,
  });
});

test("an earlier record that breaks off on its way is fetched anew, and costs no attempt", async () => {
  let breaks = 2;
  const breaking: Fetch = async (request) => {
    const answer = await rig.fetch(request);
    if (!request.url.includes("&before=") || breaks-- <= 0) return answer;
    const whole = await answer.bytes();
    return new Response(
      new ReadableStream({
        start: (controller) => controller.enqueue(whole.subarray(0, 10)),
        pull: (controller) => controller.error(new TypeError("terminated")),
      }),
    );
  };
  const { task, out } = await interrupted(
    `
dsec-tool exec --tool act --input '{"n":1}'
${WAIT}
dsec-tool exec --tool act --input '{"n":2}'
`,
    () => looks > 0,
    {},
    breaking,
  );
  expect(breaks).toBeLessThan(0);
  expect(task).toMatchObject({ state: "succeeded", attempts: 1 });
  expect(out).toBe("done 1\ndone 2\n");
  expect(done).toEqual(['{"n":1}', '{"n":2}']);
});

test("a call that was under way may have done something: the agent is told that nobody knows, and can look", async () => {
  const { task, out } = await interrupted(
    `
dsec-tool exec --tool act --input '{"n":1}'
dsec-tool exec --tool stuck --input '{"n":2}' || echo "failed: $?"
dsec-tool exec --tool act --input '{"n":3}'
`,
    () => done.length === 2,
  );
  expect(task.state).toBe("succeeded");
  expect(out).toMatch(/^done 1\nfailed: \d\ndone 3\n$/);
  expect(done).toEqual(['{"n":1}', '{"n":2}', '{"n":3}']);
});

test("a tool whose program did something is not run again, and what came before it in the tool is not done again", async () => {
  const { task, out } = await interrupted(
    `
dsec-tool exec --tool worker || echo "failed: $?"
dsec-tool exec --tool act --input '{"n":3}'
`,
    () => done.length === 1,
    {
      tools: [
        ...tools()!,
        {
          name: "worker",
          kind: "exec",
          command: ["sh", "-c", `curl -s --noproxy '' -d inner ${url}/act; sleep 60`],
        },
      ],
    },
  );
  expect(task.state).toBe("succeeded");
  expect(out).toMatch(/^failed: \d\ndone 2\n$/);
  expect(done).toEqual(["inner", '{"n":3}']);
});

test("an agent that does otherwise while something is left that must not be done twice ends, and says why", async () => {
  const { task } = await interrupted(
    `
n=$(cat /proc/sys/kernel/random/uuid)
dsec-tool exec --tool act --input '{"n":"'$n'"}'
${WAIT}
`,
    () => done.length === 1,
  );
  expect(task.state).toBe("dead");
  expect(done).toHaveLength(1);
  expect(task.result!.outcome.message).toMatch(/^REPLAY_DIVERGED: .*arguments_digest differ/);
});

test("a task that keeps no answers cannot ask to be given them again", async () => {
  const request = { command: ["true"], fast_forward: true, trace: { level: "error_only" as const } };
  await expect(rig.submit(request)).rejects.toThrow(/fast_forward.*needs trace.level full/);
});

test("a task goes on from no recording that its key has not uploaded, and not without fast_forward", async () => {
  const continues = { trace: `sha256:${"0".repeat(64)}` };
  const request = { command: ["true"], continues, fast_forward: true };
  await expect(rig.submit(request)).rejects.toThrow(/ARTIFACT_NOT_FOUND.*sha256:0000/);
  await expect(rig.submit({ ...request, fast_forward: false })).rejects.toThrow(
    /continues.*needs fast_forward/,
  );
});

test("an agent that only looked goes on live where it does otherwise", async () => {
  const { task, out } = await interrupted(
    `
dsec-tool exec --tool gate --input '{"n":"'$(cat /proc/sys/kernel/random/uuid)'"}' > /dev/null
echo begun
${WAIT}
dsec-tool exec --tool act --input '{"n":1}'
`,
    async (id) =>
      (await proxy.gateway.store.listTrajectories(id as TaskId, null)).some(({ size }) => size > 0),
  );
  expect(task.state).toBe("succeeded");
  expect(done).toEqual(['{"n":1}']);
  expect(out).toBe("begun\ndone 1\n");
});
