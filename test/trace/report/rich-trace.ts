/** A trace with something of everything that a report shows, hostile texts among it. */
import { call, type Made } from "#test/trace/made-trace.ts";

/** What known faults of other consoles were about: markup, colours, titles, links, and names of the same kind. */
export const HOSTILE =
  '<img src=x onerror="window.hit=1"><script>window.hit=1</script></script>\u001b[31mred <b>bold</b>\u001b[0m ' +
  "\u001b]0;title\u0007\u001b]8;;javascript:window.hit=1\u0007link\u001b]8;;\u0007 \u202eabc\u0000";
export const BRACKETS = "[".repeat(1024 * 1024);
export const PROGRESS = Array.from({ length: 100 }, (_, at) => `\r${at} % done`).join("");

const STEPS = ["find the order", "track the parcel", "tell the customer"];

/** @param calls how many; each third is in a step of its own */
export function* richEvents(calls = 12): Generator<Made> {
  let t_us = 0;
  const at = (event: Made, took = 1_500): Made => {
    t_us += took;
    return { ...event, t_us };
  };
  yield at({ type: "process", state: "exec", pid: 1, argv: ["python3", "agent.py", "--seed", "7"] });
  yield at({
    type: "observation",
    state: "injected",
    observation: 1,
    source: "user",
    content_json: '"Where is my parcel?"',
  });
  for (let number = 1; number <= calls; number++) {
    const step = Math.ceil(number / 4);
    if (number % 4 === 1) {
      yield at({ type: "plan_step", state: "begun", step, name: STEPS[(step - 1) % 3]! });
    }
    const failing = number % 5 === 0;
    const took = 2_000 + ((number * 7919) % 40_000);
    const tool =
      number === 7 ? HOSTILE : failing ? "get_tracking" : number % 2 === 0 ? "get_order" : "get_customer";
    const [start, end] = call(number, tool, {
      arguments: JSON.stringify({
        id: number,
        exact: "EXACT",
        note: number === 7 ? HOSTILE : "first",
      }).replace('"EXACT"', "9007199254740993"),
      output: {
        status: failing ? null : "sent",
        stdout: "\u001b[32mPASS\u001b[0m one\n\u001b[31mFAIL\u001b[0m two\n",
        items: [1.5, true, null],
      },
      start: { step },
      end: {
        duration_us: took,
        is_error: failing,
        ...(failing ? { code: "UPSTREAM_TIMEOUT", text: "the carrier did not answer within 5 s" } : {}),
        timing: {
          network_us: Math.round(took * 0.6),
          gateway_us: Math.round(took * 0.2),
          serialization_us: 300,
          cpu_wait_us: 900,
          gpu_us: null,
        },
      },
    });
    yield at(start!);
    yield at(
      {
        ...remembered(
          "shipping_status",
          failing ? "null" : '"sent"',
          number === 1 ? null : number % 5 === 1 ? "null" : '"sent"',
        ),
        call: number,
      } as Made,
      200,
    );
    yield at(end!, took);
    if (number % 3 === 0) yield at(tokens(number));
    if (failing) yield at(errorOf(number));
    if (number % 4 === 0 || number === calls) {
      yield at({
        type: "plan_step",
        state: "ended",
        step,
        name: STEPS[(step - 1) % 3]!,
        status: failing ? "failed" : "succeeded",
      });
    }
  }
  yield at({ type: "output", stream: "stdout", offset: 0, data: bytes(`${HOSTILE}\n${PROGRESS}\ndone\n`) });
  yield at({ type: "output", stream: "stderr", offset: 0, data: bytes(BRACKETS) });
  yield at({
    type: "reward",
    source: "evaluator",
    components: [
      { name: "accuracy", value: 0.75, weight: 1, product: 0.75 },
      { name: "format", value: 1, weight: 0.2, weight_change: -0.1, product: 0.2 },
      { name: "length penalty", value: -0.5, weight: 0.3, product: -0.15 },
    ],
    sum: 0.8,
  });
  yield at({ type: "process", state: "exit", pid: 1, argv: [], exit_code: 1, reason: "exited" });
}

function remembered(key: string, value: string, old: string | null): Made {
  const shown = (json: string | null) => (json === null ? null : { value_json: json });
  return {
    type: "memory_write",
    op: "put",
    namespace: "task:task-17",
    key,
    old: shown(old),
    new: shown(value),
    version: 1,
    origin: "agent.py:48 remember()",
  };
}

function tokens(number: number): Made {
  const words = ["The", " parcel", " was", " sent", " on", " Monday", ",", " I", " think", "."];
  const list = words.map((text, at) => {
    const best = Math.log(0.35 + ((at * 37) % 60) / 100);
    const tops = [
      best,
      ...[0.5, 0.25, 0.12, 0.06].map((share) => Math.log((1 - Math.exp(best)) * share * 0.9)),
    ];
    const taken = at === 8 ? 2 : 0;
    return {
      id: 100 + at,
      text,
      logprob: tops[taken]!,
      top_ids: tops.map((_, rank) => (rank === taken ? 100 + at : 900 + rank)),
      top_logprobs: tops,
      top_texts: tops.map((_, rank) => (rank === taken ? text : ` other${rank}`)),
    };
  });
  return { type: "token_logit", call: number, source: "answer", tokens: list };
}

function errorOf(number: number): Made {
  return {
    type: "error",
    code: "UPSTREAM_TIMEOUT",
    text: `the carrier did not answer ${HOSTILE}`,
    call: number,
    stack:
      'Traceback (most recent call last):\n  File "agent.py", line 48, in remember\n    status = answer["status"]\nKeyError: \'status\'',
    memory_json: '{"shipping_status":"sent","order":{"id":7,"lines":[1,2,3]}}',
    payloads: [number - 2, number - 1, number].map((call) => ({
      call,
      tool: "get_tracking",
      url: null,
      sent: `{"id":${call}}`,
      received: '{"status":null}',
      truncated: false,
    })),
  };
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
