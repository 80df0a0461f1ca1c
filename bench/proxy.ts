/**
 * What a tool call costs on top of the call itself: from inside a sandbox over its socket, executor and gateway (policy,
 * signature, pinned connect, fingerprint, receipt, event log) to an upstream on 127.0.0.1 and back, against the same call
 * made directly from the host by the same client program.
 *
 * 32 agents call at once, each at its own pace of a call a second as agents that think in between do; beside it one
 * caller without a pause, and 32 without one, whose rate is what the machine can do. What gateway and executor spend of
 * a processor tells the same on a machine that has other work.
 */
import { readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer } from "node:http";
import { percentile } from "#bench/support/figures.ts";
import { buildLoad, type Measured } from "#bench/support/load.ts";
import { compilePolicy, loadPolicy } from "#core/policy/compile.ts";
import { decide } from "#core/policy/decide.ts";
import { createClient } from "#sdk/client.ts";
import { startSystem } from "#test/flow/system.ts";

const AGENTS = 32;
const PACE_US = 1_000_000;
const PACED_CALLS = AGENTS * 20;
const CALLS = 960;
/** Code that has run so often is compiled: a gateway serves for weeks. */
const WARM_CALLS = AGENTS * 40;
const RULES = 1_000;
const ANSWER = JSON.stringify({ status: "in transit", history: Array(20).fill("a stop on the way") });

export async function run(say: (line: string) => void): Promise<Record<string, unknown>> {
  const upstream = createServer((request, response) => {
    request.resume().on("end", () => {
      response.writeHead(200, { "content-type": "application/json", "content-length": ANSWER.length });
      response.end(ANSWER);
    });
  });
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  const { port } = upstream.address() as { port: number };
  const system = await startSystem({ privateNetworks: ["127.0.0.1/32"] });
  try {
    const load = await buildLoad(createClient({ gateway: system.url, apiKey: system.adminKey }));
    const rule = { host: "127.0.0.1", port, plain_http: true, allow_private: ["127.0.0.1"] };
    const call = JSON.stringify({ method: "GET", url: `http://127.0.0.1:${port}/tracking` });
    const direct = (agents: number, calls: number, paceUs: number) =>
      load.onHost(["http", String(port), ...[agents, calls, paceUs].map(String), "GET", "/tracking", ""]);
    const through = (agents: number, calls: number, paceUs: number) =>
      load.inSandbox(["http", "$SOCKET", ...[agents, calls, paceUs].map(String), "POST", "/v1/call", call], {
        policy: { rules: [rule] },
      });
    await through(AGENTS, WARM_CALLS, 0);
    const figures: Record<string, { direct: Measured; through: Measured }> = {};
    let floodCpuMs = 0;
    for (const [name, agents, calls, paceUs] of [
      ["paced", AGENTS, PACED_CALLS, PACE_US],
      ["alone", 1, CALLS, 0],
      ["flood", AGENTS, CALLS, 0],
    ] as const) {
      const directly = await direct(agents, calls, paceUs);
      const beforeMs = cpuMs(system.folder);
      const pair = { direct: directly, through: await through(agents, calls, paceUs) };
      const spentMs = (cpuMs(system.folder) - beforeMs) / calls;
      if (name === "flood") floodCpuMs = spentMs;
      figures[name] = pair;
      say(
        `${name.padEnd(6)} direct ${summary(pair.direct)}   through DSec ${summary(pair.through)}, ${spentMs.toFixed(2)} ms of CPU a call`,
      );
    }
    const { paced, alone, flood } = figures as Record<"paced" | "alone" | "flood", (typeof figures)[string]>;
    const policyUs = policyDecisionUs();
    say(`a decision over ${RULES} rules: ${policyUs} µs`);
    return {
      added_p50_ms: added(paced!, 0.5),
      added_p99_ms: added(paced!, 0.99),
      alone_added_p50_ms: added(alone!, 0.5),
      alone_added_p99_ms: added(alone!, 0.99),
      calls_per_s: Math.round(flood!.through.us.length / flood!.through.seconds),
      calls_per_core_s: Math.round(1000 / floodCpuMs),
      policy_us: policyUs,
      n: PACED_CALLS,
    };
  } finally {
    await system.stop();
    await rm(system.folder, { recursive: true });
    upstream.close();
  }
}

function added({ direct, through }: { direct: Measured; through: Measured }, fraction: number): number {
  return Math.round((percentile(through.us, fraction) - percentile(direct.us, fraction)) / 10) / 100;
}

function summary({ us, seconds }: Measured): string {
  const ms = (fraction: number) => (percentile(us, fraction) / 1000).toFixed(2);
  return `p50 ${ms(0.5)} p99 ${ms(0.99)} ms, ${Math.round(us.length / seconds)}/s`;
}

/** What the system's gateway and executor have used of processors so far (proc_pid_stat(5), utime and stime in 1/100 s). */
function cpuMs(folder: string): number {
  let ticks = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (!/cli\/main\.ts (gateway|executor)/.test(argumentsOf(pid)) || !argumentsOf(pid).includes(folder))
        continue;
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      ticks += Number(fields[11]) + Number(fields[12]);
    } catch {
      // it ended meanwhile
    }
  }
  return ticks * 10;
}

function argumentsOf(pid: string): string {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
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
