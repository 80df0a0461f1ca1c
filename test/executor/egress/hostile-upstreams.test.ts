/**
 * Whatever an upstream answers costs that one call at most. Real sockets, plain and TLS, give bytes of every kind through
 * every door of a sandbox; each call ends by a code or is passed on, and the task that made them is none the worse.
 */
import { decodeJwt } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { merkleRoot } from "#core/merkle.ts";
import type { ReceiptClaims } from "#core/wire/calls.ts";
import { Rig } from "#test/executor/executor-under-test.ts";
import { ISSUER } from "#test/gateway/gateway-under-test.ts";
import { LOOPBACK, openTestProxy, type TestProxy } from "#test/gateway/proxy/proxy-under-test.ts";
import { selfSigned } from "#test/support/certificate.ts";
import {
  type HostileAnswer,
  type HostileUpstream,
  knownAnswers,
  randomAnswer,
  serveHostile,
} from "#test/support/hostile-upstream.ts";
import { readTrace } from "#test/support/trace-file.ts";
import { chosenSeed, Random } from "#test/trace/events/random-events.ts";
import { verifyAttestation } from "#trace/attestation/verify.ts";

const NAME = "upstream.test";
/** `DSEC_SEED=n` gives the same answers again, DSEC_FUZZ_ROUNDS more of them. */
const SEED = chosenSeed();
const ROUNDS = Number(process.env.DSEC_FUZZ_ROUNDS ?? 1);
const RANDOM_ANSWERS = 30;

let proxy: TestProxy;
let rig: Rig;
let answers: HostileAnswer[];
let plain: HostileUpstream;
let secure: HostileUpstream;
beforeAll(async () => {
  console.log(`hostile upstreams: DSEC_SEED=${SEED}`);
  const random = new Random(SEED);
  answers = [
    ...knownAnswers(),
    ...Array.from({ length: RANDOM_ANSWERS * ROUNDS }, () => randomAnswer(random)),
  ];
  const tls = selfSigned(NAME);
  plain = await serveHostile(answers, null);
  secure = await serveHostile(answers, tls);
  proxy = await openTestProxy({ ca: tls.cert, over: "http" });
  proxy.names.set(NAME, ["127.0.0.1"]);
  rig = await Rig.open(proxy.gateway);
  await rig.start({ gatewayUrl: proxy.url });
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await proxy?.close();
  await plain?.close();
  await secure?.close();
});

/** How a sandbox asks for `$1/N` for each N up to `$2`: a shell script that ends whatever comes. */
const DOORS: Record<string, string> = {
  "an unmodified program": `curl -sS -m 60 -o /dev/null -w '%{http_code}\\n' "$1/[0-$2]"`,
  "an opening WebSocket": `curl -sS -m 60 -o /dev/null -w '%{http_code}\\n' -H 'Connection: Upgrade' -H 'Upgrade: websocket' \\
    -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' "$1/[0-$2]"`,
  "a declared tool": `for n in $(seq 0 $2); do dsec-tool exec --tool "$(echo $1 | cut -d: -f1)" --input "{\\"n\\":$n}"; echo " $?"; done`,
  "a call of the agent's own": `for n in $(seq 0 $2); do dsec-tool api-call --url $1/$n; echo " $?"; done`,
};

test.each(
  Object.keys(DOORS).flatMap((door) => (["http", "https"] as const).map((scheme) => [door, scheme] as const)),
)("what an upstream answers to %s over %s harms no task", async (door, scheme) => {
  const { port } = scheme === "http" ? plain : secure;
  const base = `${scheme}://${NAME}:${port}`;
  const last = answers.length - 1;
  const { task, stderr, attestations } = await rig.run({
    command: ["sh", "-c", `${DOORS[door]!}; echo done`, "sh", base, String(last)],
    tools: [{ name: scheme, kind: "http", url: `${base}/{n}` }],
    policy: {
      rules: [plain, secure].map(({ port }) => ({
        ...{ host: NAME, port, allow_private: LOOPBACK },
        plain_http: port === plain.port,
      })),
      // For those of whose answers there is no end.
      timeout_ms_max: 2_000,
    },
    timeout_ms: 240_000,
  });
  const seed = `DSEC_SEED=${SEED}`;
  expect(
    task,
    `${seed}: ${JSON.stringify(task.result?.outcome)} ${stderr.toString().slice(0, 500)}`,
  ).toMatchObject({ state: "succeeded", attempts: 1 });

  const { items } = await rig.client.ok<{ items: { receipt: string; seq: number }[] }>(
    "GET",
    `/v1/tasks/${task.id}/receipts?limit=200`,
  );
  const rest = await moreReceipts(task.id, items.length);
  const receipts = [...items, ...rest];
  const jwks = await rig.client.ok<{ keys: never[] }>("GET", "/.well-known/jwks.json");
  expect(attestations).toHaveLength(1);
  const claims = await verifyAttestation(attestations[0]!.jwt, {
    jwks: jwks as never,
    issuer: ISSUER,
    now: proxy.gateway.clock.nowMs,
  });
  const leaves = receipts.map(({ receipt }) => Buffer.from(receipt));
  expect(claims.dsec.calls).toEqual({ count: receipts.length, receipts_root: await merkleRoot(leaves) });

  const trace = await rig.client.send("GET", `/v1/tasks/${task.id}/trace`);
  const { events } = await readTrace(new Uint8Array(await trace.arrayBuffer()));
  const starts = events.filter((event) => event.type === "tool_call_start");
  const ends = events.filter((event) => event.type === "tool_call_end");
  expect([starts.length, ends.length], seed).toEqual([answers.length, answers.length]);
  const bySeq = new Map(
    receipts.map(({ receipt, seq }) => [seq, decodeJwt(receipt) as unknown as ReceiptClaims]),
  );
  for (const end of ends) {
    const { call, call_seq, state, code, status } = end;
    const number = starts.findIndex((start) => start.call === call);
    const what = `${seed}: ${door}, ${scheme}, ${answers[number]?.what}: ${JSON.stringify(end)}`;
    expect(["answered", "failed", "timed_out"], what).toContain(state);
    // Neither is the upstream's doing.
    expect(["INTERNAL", "GATEWAY_UNREACHABLE", "CALL_CANCELLED"], what).not.toContain(code);
    if (state === "answered") expect(status, what).not.toBeNull();
    if (call_seq === null) continue;
    const receipt = bySeq.get(call_seq);
    expect(receipt, what).toMatchObject({ status, error: state === "answered" ? null : code });
  }
  expect(proxy.gateway.logged.filter(({ level }) => level === "error")).toEqual([]);
});

async function moreReceipts(taskId: string, have: number) {
  const more: { receipt: string; seq: number }[] = [];
  let path = `/v1/tasks/${taskId}/receipts?limit=200`;
  for (let at = have; at >= 200; ) {
    const first = await rig.client.ok<{ next_cursor: string | null }>("GET", path);
    if (first.next_cursor === null) break;
    path = `/v1/tasks/${taskId}/receipts?limit=200&cursor=${first.next_cursor}`;
    const page = await rig.client.ok<{ items: { receipt: string; seq: number }[] }>("GET", path);
    more.push(...page.items);
    at = page.items.length;
  }
  return more;
}
