/** Agents that ran in real sandboxes against a real upstream, and their traces. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect } from "vitest";
import { LIMITS } from "#core/limits.ts";
import type { TaskRequest } from "#core/wire/tasks.ts";
import type { Executor } from "#executor/main.ts";
import { continuationOf } from "#executor/replay/continuation.ts";
import { type Recording, readRecording } from "#executor/replay/recording.ts";
import {
  openReplayHost,
  type ReplayEnd,
  type ReplayHost,
  type ReplaySettings,
  runReplay,
} from "#executor/replay/run-replay.ts";
import { type Finished, Rig } from "#test/executor/executor-under-test.ts";
import { openTestProxy, reach, type TestProxy } from "#test/gateway/proxy/proxy-under-test.ts";
import { type ReadTrace, readTrace } from "#test/support/trace-file.ts";

/** A gateway, an executor, and an upstream that never answers the same twice: what a replay gives can only be recorded. */
export class Replays implements AsyncDisposable {
  readonly proxy: TestProxy;
  readonly rig: Rig;
  readonly folder: string;
  readonly host: ReplayHost;
  /** Bodies of what the upstream was asked, in order. */
  asked: string[] = [];
  executor!: Executor;
  url = "";
  #port = 0;

  static async open(): Promise<Replays> {
    const proxy = await openTestProxy();
    const folder = await mkdtemp(join(tmpdir(), "dsec-replays-"));
    const replays = new Replays(proxy, await Rig.open(proxy.gateway), folder, await openReplayHost());
    await replays.#serve();
    replays.executor = await replays.rig.start();
    return replays;
  }

  private constructor(proxy: TestProxy, rig: Rig, folder: string, host: ReplayHost) {
    this.proxy = proxy;
    this.rig = rig;
    this.folder = folder;
    this.host = host;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host.close();
    await this.rig[Symbol.asyncDispose]();
    await this.proxy.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Runs an agent to its end and reads its trace. */
  async recorded(
    script: string,
    request: Partial<TaskRequest> = {},
    meanwhile: (taskId: string) => Promise<void> = async () => {},
  ): Promise<{ recording: Recording; stdout: string; stderr: string }> {
    const submitted = await this.rig.submit(this.request(script, request));
    await meanwhile(submitted.id);
    const { task, stdout, stderr } = await this.rig.finished(submitted.id);
    const recording = await this.recordingOf(task.id);
    return { recording, stdout: stdout.toString(), stderr: stderr.toString() };
  }

  request(script: string, request: Partial<TaskRequest>): TaskRequest {
    return {
      ...{ command: ["sh", "-c", script], policy: reach(this.#port), timeout_ms: 60_000 },
      ...{ tools: this.#tools(), ...request },
    };
  }

  /** Runs it again. Nothing may reach the upstream meanwhile, and nothing is held but at a divergence. */
  async replayed(recording: Recording, settings: Partial<ReplaySettings> = {}): Promise<ReplayEnd> {
    const before = this.asked.length;
    const end = await runReplay(recording, this.host, {
      fetchArtifact: () => Promise.reject(new Error("no inputs here")),
      imagesOf: this.folder,
      holdAt: null,
      onHeld: async ({ at }) => {
        expect(at).toBe("divergence");
        return { next: "end" };
      },
      realTime: false,
      onProgress: () => {},
      signal: new AbortController().signal,
      ...settings,
    });
    expect(this.asked.slice(before), "what a replay did").toEqual([]);
    return end;
  }

  /** Runs a task that goes on from a recording. */
  async continued(
    recording: Recording,
    untilCall: number | null,
    meanwhile: (taskId: string) => Promise<void> = async () => {},
  ): Promise<Finished & { trace: ReadTrace }> {
    expect(await this.rig.client.upload(await readFile(recording.file))).toBe(recording.digest);
    const { id } = await this.rig.submit(continuationOf(recording, untilCall, undefined));
    await meanwhile(id);
    return { ...(await this.rig.finished(id)), trace: await readTrace(await this.#traceOf(id)) };
  }

  async recordingOf(taskId: string): Promise<Recording> {
    const file = join(this.folder, `${taskId}.trace`);
    await writeFile(file, await this.#traceOf(taskId));
    return readRecording(file);
  }

  async #traceOf(taskId: string): Promise<Uint8Array> {
    const answer = await this.rig.client.send("GET", `/v1/tasks/${taskId}/trace`);
    return new Uint8Array(await answer.arrayBuffer());
  }

  async #serve(): Promise<void> {
    const { url, port } = await this.proxy.serve(async (request, response) => {
      let body = "";
      for await (const part of request) body += part;
      this.asked.push(body);
      const json = { "content-type": "application/json" };
      if (request.url === "/go") {
        response
          .writeHead(302, { location: "/coded", "set-cookie": `visit=${this.asked.length}` })
          .end("moved\n");
      } else if (request.url === "/coded") {
        const text = gzipSync(`${request.headers.cookie} ${this.asked.length}\n`);
        response.writeHead(200, { "content-encoding": "gzip" }).end(text);
      } else if (request.url === "/long") response.end("x".repeat(LIMITS.recordedAnswerBytes + 1));
      else if (request.url === "/down") response.writeHead(503).end("down");
      else if (request.url === "/hang") setTimeout(() => response.end("late"), 2_000);
      else if (request.url === "/slow") setTimeout(() => response.end("slow"), 300);
      else response.writeHead(200, json).end(`{"effect": ${this.asked.length}.0}`);
    });
    this.url = url;
    this.#port = port;
  }

  #tools(): TaskRequest["tools"] {
    const { url } = this;
    return [
      { name: "act", kind: "http", method: "POST", url: `${url}/act` },
      { name: "look", kind: "http", url: `${url}/look/{id}`, read_only: true },
      { name: "down", kind: "http", url: `${url}/down` },
      { name: "hang", kind: "http", url: `${url}/hang`, timeout_ms: 300 },
      {
        name: "hang_default",
        kind: "http",
        url: `${url}/hang`,
        timeout_ms: 300,
        fallback: { nothing: null },
      },
      { name: "slow", kind: "http", method: "POST", url: `${url}/slow` },
      { name: "now", kind: "exec", command: ["date", "+%N"] },
      { name: "broken", kind: "exec", command: ["sh", "-c", "echo why >&2; exit 3"] },
      { name: "absent", kind: "exec", command: ["/no/such/program"] },
      { name: "here", kind: "exec", where: "sandbox", command: ["sh", "-c", "cat mark; cat", "sh"] },
    ];
  }
}
