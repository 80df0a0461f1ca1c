/**
 * Every tool call of the recorded airline episodes, made again from sandboxes: an upstream on 127.0.0.1 answers each
 * with what was recorded, and receipts, event log and attestation agree about all of them. Their traces give them again.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocalJWKSet, type JWTVerifyGetKey, jwtVerify } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { AttestationClaims } from "#core/wire/attestations.ts";
import type { ReceiptClaims } from "#core/wire/calls.ts";
import type { Task } from "#core/wire/tasks.ts";
import { readRecording } from "#executor/replay/recording.ts";
import { openReplayHost, runReplay } from "#executor/replay/run-replay.ts";
import { type Client, createClient } from "#sdk/client.ts";
import { readTrace } from "#test/support/trace-file.ts";
import { EPISODES, type Episode, toolSteps } from "./episodes.ts";
import { leftovers, type System, startSystem } from "./system.ts";

let system: System;
let client: Client;
let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream(EPISODES ?? []);
  system = await startSystem({ privateNetworks: ["127.0.0.1/32"] });
  client = createClient({ gateway: system.url, apiKey: system.adminKey });
});
afterAll(async () => {
  await system?.stop();
  upstream?.server.close();
  expect(await leftovers(system.folder)).toEqual([]);
});

const ran: Task[] = [];

test.runIf(EPISODES)("862 recorded calls are made, answered, receipted, logged and attested", async () => {
  const episodes = EPISODES!;
  expect(episodes.reduce((sum, episode) => sum + toolSteps(episode).length, 0)).toBe(862);
  const agent = await client.artifacts.put(readFileSync(`${import.meta.dirname}/agents/replay_episode.py`));
  const tasks = await Promise.all(episodes.map((episode) => submit(episode, agent.artifact)));
  const keys = createLocalJWKSet((await client.jwks()) as Parameters<typeof createLocalJWKSet>[0]);
  for (const [index, { id }] of tasks.entries()) {
    const task = await client.tasks.wait(id);
    const episode = episodes[index]!;
    expect(task, `${episode.id}: ${await text(task)}`).toMatchObject({ state: "succeeded" });
    await expectAccounted(task, episode, keys);
    ran.push(task);
  }
  expect(upstream.signed, "calls that came with a signature").toBe(862);
});

test.runIf(EPISODES)(
  "every one of these runs does the same again with nothing but its trace and its inputs",
  async () => {
    expect(ran).toHaveLength(EPISODES!.length);
    const folder = mkdtempSync(join(tmpdir(), "dsec-replays-"));
    const host = await openReplayHost();
    let answered = 0;
    const waiting = [...ran];
    const replayEach = async () => {
      for (let task = waiting.pop(); task !== undefined; task = waiting.pop()) {
        const file = join(folder, `${task.id}.trace`);
        writeFileSync(file, await bytesOf(await client.tasks.trace(task.id)));
        const end = await runReplay(await readRecording(file), host, {
          fetchArtifact: async (digest) =>
            new Blob([(await client.artifacts.get(digest)) as Uint8Array<ArrayBuffer>]).stream(),
          ...{ imagesOf: folder, holdAt: null, realTime: false, onProgress() {} },
          onHeld: () => Promise.reject(new Error("nothing is to be held")),
          signal: new AbortController().signal,
        });
        expect(end, task.id).toMatchObject({ state: "equal", differences: [], divergence: null });
        expect(end.outputs, task.id).toEqual(task.result!.outputs);
        expect(end.stdout.digest, task.id).toBe(task.result!.stdout.digest);
        answered += end.calls.answered;
      }
    };
    try {
      await Promise.all([replayEach(), replayEach(), replayEach()]);
    } finally {
      await host.close();
      rmSync(folder, { recursive: true, force: true });
    }
    expect(answered).toBe(862);
    expect(upstream.signed, "calls that came with a signature").toBe(862);
  },
);

async function submit(episode: Episode, agent: string): Promise<Task> {
  const input = await client.artifacts.put(new TextEncoder().encode(JSON.stringify(episode)));
  const names = [...new Set(toolSteps(episode).map(({ tool }) => tool))];
  return client.tasks.submit({
    command: ["/usr/bin/python3", "/agent/replay.py", "/input/episode.json"],
    inputs: [
      { artifact: agent, mount_path: "/agent/replay.py" },
      { artifact: input.artifact, mount_path: "/input/episode.json" },
    ],
    outputs: ["output.json"],
    tools: names.map((name) => ({
      name,
      kind: "http",
      method: "POST",
      url: `http://127.0.0.1:${upstream.port}/${episode.id}/${name}`,
    })),
    policy: {
      rules: [
        {
          host: "127.0.0.1",
          port: upstream.port,
          path_prefix: `/${episode.id}`,
          plain_http: true,
          allow_private: ["127.0.0.1"],
        },
      ],
    },
    resources: { cpu_cores: 0.2, memory_mb: 64, pids: 16, disk_mb: 16 },
  });
}

async function expectAccounted(task: Task, episode: Episode, keys: JWTVerifyGetKey): Promise<void> {
  const steps = toolSteps(episode);
  const [attestation] = await client.tasks.attestations(task.id);
  const attested = await jwtVerify(attestation!.jwt, keys, {
    issuer: system.issuer,
    typ: "dsec-attestation+jwt",
  });
  const { dsec } = attested.payload as unknown as AttestationClaims;

  const receipts: string[] = [];
  for await (const { receipt } of client.tasks.receipts(task.id)) receipts.push(receipt);
  expect(receipts, episode.id).toHaveLength(steps.length);
  expect(dsec.calls).toEqual({
    count: steps.length,
    receipts_root: treeHash(receipts.map((jws) => Buffer.from(jws))),
  });
  for (const [index, jws] of receipts.entries()) {
    const { payload } = await jwtVerify(jws, keys, { issuer: system.issuer, typ: "dsec-receipt+jwt" });
    const receipt = payload as unknown as ReceiptClaims;
    const { response, tool } = steps[index]!;
    expect(receipt).toMatchObject({
      seq: index + 1,
      status: response.startsWith("Error") ? 422 : 200,
      error: null,
      url: `http://127.0.0.1:${upstream.port}/${episode.id}/${tool}`,
      partial: false,
      pinned_dns: true,
    });
    expect(receipt.fingerprint!.body).toBe(sha256(Buffer.from(response)));
  }

  const file = await bytesOf(await client.tasks.trace(task.id));
  const { events, chain_head } = await readTrace(file);
  const count = (type: string) => events.filter((event) => event.type === type).length;
  expect([count("tool_call_start"), count("tool_call_end")]).toEqual([steps.length, steps.length]);
  // one for the empty list, one for each call that is remembered
  expect(count("memory_write")).toBe(1 + steps.length);
  const refused = steps.filter(({ response }) => response.startsWith("Error")).length;
  expect(count("error")).toBe(refused);
  const trace = { count: events.length, chain_head, digest: sha256(file), size: file.length };
  expect(dsec.trace).toEqual(trace);
}

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

async function text(task: Task): Promise<string> {
  return new TextDecoder().decode(await client.tasks.stream(task.id, "stderr"));
}

function sha256(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** The Merkle tree hash as RFC 6962 section 2.1 writes it: recursive, split at the largest power of two below n. */
function treeHash(leaves: Buffer[]): string | null {
  const hash = (...parts: Uint8Array[]) => createHash("sha256").update(Buffer.concat(parts)).digest();
  const tree = (part: Buffer[]): Buffer => {
    if (part.length === 1) return hash(Buffer.of(0), part[0]!);
    const split = 2 ** Math.floor(Math.log2(part.length - 1));
    return hash(Buffer.of(1), tree(part.slice(0, split)), tree(part.slice(split)));
  };
  return leaves.length === 0 ? null : `sha256:${tree(leaves).toString("hex")}`;
}

type Upstream = { server: Server; port: number; signed: number };

/** Answers the n-th call of an episode with its n-th recorded response; anything else is 404. */
async function startUpstream(episodes: Episode[]): Promise<Upstream> {
  const left = new Map(episodes.map((episode) => [episode.id, toolSteps(episode)]));
  const started: Upstream = { server: createServer(), port: 0, signed: 0 };
  started.server.on("request", async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const [, id = "", tool = ""] = request.url!.split("/");
    const step = left.get(id)?.shift();
    const args = JSON.parse(Buffer.concat(chunks).toString() || "null");
    if (step?.tool !== tool || canonical(args) !== canonical(step.args)) {
      response.writeHead(404).end(`expected ${step?.tool} ${JSON.stringify(step?.args)}`);
      return;
    }
    if (request.headers["dsec-call-signature"] && request.headers["signature-input"]) started.signed++;
    response.writeHead(step.response.startsWith("Error") ? 422 : 200, {
      "content-type": "text/plain; charset=utf-8",
    });
    response.end(step.response);
  });
  await new Promise<void>((resolve) => started.server.listen(0, "127.0.0.1", resolve));
  started.port = (started.server.address() as { port: number }).port;
  return started;
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, member) =>
    member !== null && typeof member === "object" && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
}
