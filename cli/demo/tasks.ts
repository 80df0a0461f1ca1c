/** The main job: programs of `examples/agents`, each with the end that it must have. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { EndReason, TaskState } from "#core/task.ts";
import type { WireResources } from "#core/wire/common.ts";

export type DemoTask = {
  name: string;
  command: string[];
  /** Files of `examples/agents`, mounted under /inputs. */
  inputs: string[];
  resources: Partial<WireResources>;
  timeout_ms: number;
  expected: { state: TaskState; reason: EndReason; exitCode?: number };
};

/** A fifth of a core each, so that they run side by side on a small machine too. */
const SMALL = { cpu_cores: 0.2, memory_mb: 128, pids: 64, disk_mb: 64 };
const SUCCEEDS = { state: "succeeded", reason: "exited", exitCode: 0 } as const;

export const DEMO_TASKS: DemoTask[] = [
  {
    name: "hello",
    command: ["sh", "-c", `echo "hello from $(hostname)"; echo '{"greeting": "hello"}' > output.json`],
    inputs: [],
    resources: SMALL,
    timeout_ms: 30_000,
    expected: SUCCEEDS,
  },
  python("grade-answers", "grade_answers.py", SUCCEEDS, { inputs: ["answers.json"] }),
  python("parallel-sum", "parallel_sum.py", SUCCEEDS, { resources: { ...SMALL, cpu_cores: 0.5 } }),
  python("look-around", "look_around.py", SUCCEEDS),
  python("raw-bytes", "raw_bytes.py", SUCCEEDS),
  python("give-up", "give_up.py", { state: "failed", reason: "exited", exitCode: 3 }),
  python(
    "eat-memory",
    "eat_memory.py",
    { state: "failed", reason: "oom_killed" },
    { resources: { ...SMALL, memory_mb: 64 } },
  ),
  {
    name: "never-end",
    command: ["sh", "/inputs/never-end.sh"],
    inputs: ["never-end.sh"],
    resources: SMALL,
    timeout_ms: 1_500,
    expected: { state: "failed", reason: "timed_out" },
  },
];

/** A file of `examples/agents`. */
export function readAgentFile(name: string): Uint8Array {
  return readFileSync(join(import.meta.dirname, "../../examples/agents", name));
}

function python(
  name: string,
  program: string,
  expected: DemoTask["expected"],
  more: { inputs?: string[]; resources?: Partial<WireResources> } = {},
): DemoTask {
  const inputs = more.inputs ?? [];
  return {
    name,
    command: ["python3", `/inputs/${program}`, ...inputs.map((input) => `/inputs/${input}`)],
    inputs: [program, ...inputs],
    resources: more.resources ?? SMALL,
    timeout_ms: 30_000,
    expected,
  };
}
