/**
 * What is looked at beside a call: an answer that is read along, and how long its sandbox waited for a processor. By the CPU
 * time of the process, so that other load on the machine changes little.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Options } from "#bench/main.ts";
import { checkpoint } from "#bench/support/interrupt.ts";
import { SandboxCpu } from "#executor/trace/sandbox-cpu.ts";
import { plan, testLauncher } from "#test/native/sandboxes.ts";
import { CHAT, delta, logprob, sse } from "#test/trace/completions/answers.ts";
import { CompletionReader } from "#trace/completions/reader.ts";
import { Vocabulary } from "#trace/completions/vocabulary.ts";

const CHUNKS = 200;

export async function run(
  say: (line: string) => void,
  { quick, signal }: Options,
): Promise<Record<string, unknown>> {
  const rounds = quick ? 2_000 : 20_000;
  const top: [string, number][] = [
    ["a", -1],
    ["b", -2],
    ["c", -3],
    ["d", -4],
    ["e", -5],
  ];
  const plain = sse(delta({ content: " word" }));
  const withTop = sse(delta({ content: " word" }, { logprobs: { content: [logprob("a", -1, top)] } }));
  const user = { name: "a user", email: "user@example.org", orders: [1, 2, 3] };
  const other = Buffer.from(
    JSON.stringify({ items: Array.from({ length: 100 }, (_, id) => ({ id, ...user })) }),
  );
  const vocabulary = new Vocabulary();
  const reads = (body: string | Buffer) => {
    const bytes = Buffer.from(body);
    return () => {
      const reader = new CompletionReader(vocabulary, () => {});
      reader.push(bytes);
      reader.end();
    };
  };
  const figures = {
    chunk_us: (await each(rounds / CHUNKS, reads(plain.repeat(CHUNKS)), signal)) / CHUNKS,
    chunk_top_us: (await each(rounds / CHUNKS, reads(withTop.repeat(CHUNKS)), signal)) / CHUNKS,
    whole_us: await each(rounds, reads(JSON.stringify(CHAT)), signal),
    other_us: await each(rounds, reads(other), signal),
    cpu_us: await readingCpu(rounds, signal),
  };
  const rounded = Object.fromEntries(
    Object.entries(figures).map(([name, us]) => [name, Number(us.toFixed(1))]),
  ) as typeof figures;
  say(
    `read along: ${rounded.chunk_us} µs for a chunk of a stream (${plain.length} bytes), ${rounded.chunk_top_us} µs with five candidates ` +
      `(${withTop.length} bytes); ${rounded.whole_us} µs for a short whole answer; ${rounded.other_us} µs for ${other.length} bytes of other JSON; ` +
      `a look at a sandbox of ${THREADS} threads: ${rounded.cpu_us} µs`,
  );
  return rounded;
}

/** init, the shell and two programs */
const THREADS = 4;

async function readingCpu(rounds: number, signal: AbortSignal): Promise<number> {
  await using native = await testLauncher();
  const sandbox = await native.launcher.launch(plan(["sh", "-c", "sleep 60 & sleep 60; true"]));
  await sleep(200);
  const cpu = SandboxCpu.open(sandbox.pid);
  if (cpu === null) throw new Error("this host tells nothing of its sandboxes' processors");
  try {
    return await each(rounds, () => cpu.look(), signal);
  } finally {
    cpu.close();
    sandbox.kill();
    await sandbox.destroy();
  }
}

/** Microseconds of CPU time that one call takes. */
async function each(times: number, work: () => void, signal: AbortSignal): Promise<number> {
  await checkpoint(signal);
  for (let time = 0; time < times / 5; time++) work();
  const before = process.cpuUsage();
  for (let time = 0; time < times; time++) work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / times;
}
