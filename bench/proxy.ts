/**
 * What a tool call costs on top of the call itself: from inside a sandbox over its socket, executor and gateway (policy,
 * signature, pinned connect, fingerprint, receipt, event log) to an upstream on 127.0.0.1 and back, against the same call
 * made directly from the host by the same client program. PostgreSQL has a production server's durability.
 *
 * Beside it, in alternating rounds of the same run, what is the least that such a call can cost:
 * - the empty chain: an HTTP server of Node on a Unix socket passes the call by undici to a second one, which inserts a
 *   row into the same PostgreSQL, asks the upstream by undici and answers (bench/support/empty): no policy, signature,
 *   fingerprint, receipt or record;
 * - the floor: processes that wait in epoll_wait and pass 800 bytes on over the same hops, the database's too
 *   (bench/support/relay.cc), against the one hop to the last of them.
 *
 * 32 agents call at once, each at its own pace of a call a second as agents that think in between do; beside it one
 * caller without a pause, and 32 without one, whose rate is what the machine can do. What gateway and executor spend of
 * a processor tells the same on a machine that has other work. A connection's first call is not counted.
 */
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Options } from "#bench/main.ts";
import { type Agents, openWays, WAYS, type Ways } from "#bench/support/call-ways.ts";
import { cpuMs } from "#bench/support/cpu.ts";
import { percentile, recordOf } from "#bench/support/figures.ts";
import { compilePolicy, loadPolicy } from "#core/policy/compile.ts";
import { decide } from "#core/policy/decide.ts";

const AGENTS = 32;
/** What a round makes of calls. */
const LOADS = {
  paced: { agents: AGENTS, calls: AGENTS * 4, paceUs: 1_000_000 },
  alone: { agents: 1, calls: 300, paceUs: 0 },
  flood: { agents: AGENTS, calls: 960, paceUs: 0 },
};
/** Code that has run so often is compiled: a gateway serves for weeks. */
const WARM_UP = { agents: AGENTS, calls: AGENTS * 40, paceUs: 0 };
const RULES = 1_000;

type LoadName = keyof typeof LOADS;
type WayName = (typeof WAYS)[number];
/** Calls were made that are not in `us`. */
type Sample = { us: number[]; seconds: number; made: number; cpuMs: number };
type Samples = Record<LoadName, Record<WayName, Sample>>;

export async function run(
  say: (line: string) => void,
  { quick, signal }: Options,
): Promise<Record<string, unknown>> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "dsec-bench-proxy-"));
  await using ways = await openWays(folder.path, signal);
  const rounds = quick ? 1 : 4;
  const samples = await measure(ways, rounds, say);
  const policyUs = policyDecisionUs();
  say(`a decision over ${RULES} rules: ${policyUs} µs`);
  return {
    ...addedBy("dsec", samples, ""),
    ...addedBy("empty", samples, "empty_"),
    ...addedBy("floor", samples, "floor_"),
    ratio_empty_p50: ratio(samples, "empty", 0.5),
    ratio_empty_p99: ratio(samples, "empty", 0.99),
    ratio_floor_p50: ratio(samples, "floor", 0.5),
    ratio_floor_p99: ratio(samples, "floor", 0.99),
    policy_us: policyUs,
    n: LOADS.paced.calls * rounds,
  };
}

async function measure(ways: Ways, rounds: number, say: (line: string) => void): Promise<Samples> {
  for (const way of WAYS) await ways[way].measure(WARM_UP);
  const names = Object.keys(LOADS) as LoadName[];
  const none = (): Sample => ({ us: [], seconds: 0, made: 0, cpuMs: 0 });
  const samples: Samples = recordOf(names, () => recordOf(WAYS, none));
  for (let round = 1; round <= rounds; round++) {
    for (const load of names) {
      for (const way of WAYS) await addTo(samples[load][way], ways[way], LOADS[load]);
    }
    say(`round ${round} of ${rounds}`);
  }
  for (const load of names) {
    for (const way of WAYS) say(`${load.padEnd(6)} ${way.padEnd(12)} ${summary(samples[load][way])}`);
  }
  return samples;
}

async function addTo(sample: Sample, { measure, pids }: Ways[WayName], agents: Agents): Promise<void> {
  const beforeMs = cpuMs(pids);
  const { us, seconds } = await measure(agents);
  sample.cpuMs += cpuMs(pids) - beforeMs;
  sample.made += agents.calls + agents.agents;
  sample.us.push(...us);
  sample.seconds += seconds;
}

/** What a way adds to a call, at its pace and alone, and what it can do at most. */
function addedBy(way: "dsec" | "empty" | "floor", { paced, alone, flood }: Samples, prefix: string) {
  const { us, seconds, made, cpuMs } = flood[way];
  return {
    [`${prefix}added_p50_ms`]: rounded(added(paced, way, 0.5)),
    [`${prefix}added_p99_ms`]: rounded(added(paced, way, 0.99)),
    [`${prefix}alone_added_p50_ms`]: rounded(added(alone, way, 0.5)),
    [`${prefix}alone_added_p99_ms`]: rounded(added(alone, way, 0.99)),
    [`${prefix}calls_per_s`]: Math.round(us.length / seconds),
    [`${prefix}calls_per_core_s`]: Math.round((1000 * made) / cpuMs),
  };
}

/** Milliseconds by which a way's percentile is above that of the one hop. */
function added(samples: Samples[LoadName], way: "dsec" | "empty" | "floor", fraction: number): number {
  const hop = samples[way === "floor" ? "floor_direct" : "direct"];
  return (percentile(samples[way].us, fraction) - percentile(hop.us, fraction)) / 1000;
}

/** How many times as much DSec adds, at the agents' pace. */
function ratio({ paced }: Samples, way: "empty" | "floor", fraction: number): number {
  return rounded(added(paced, "dsec", fraction) / added(paced, way, fraction));
}

function summary({ us, seconds }: Sample): string {
  const ms = (fraction: number) => (percentile(us, fraction) / 1000).toFixed(2);
  return `p50 ${ms(0.5)} p99 ${ms(0.99)} ms, ${Math.round(us.length / seconds)}/s`;
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

function policyDecisionUs(): number {
  const hosts = Array.from({ length: RULES }, (_, i) => `service-${i}.tools.example.com`);
  const policy = compilePolicy(loadPolicy({ rules: hosts.map((host) => ({ host, path_prefix: "/v1" })) }));
  const urls = hosts.map((host) => `https://${host}/v1/items?page=2`);
  const count = 50_000;
  const startedMs = performance.now();
  for (let i = 0; i < count; i++) {
    if (!decide(policy, { method: "GET", url: urls[i % RULES]! }).allowed)
      throw new Error("the policy is wrong");
  }
  return Math.round(((performance.now() - startedMs) / count) * 100_000) / 100;
}
