/** A whole gateway and a real executor that calls it without HTTP, over a line that the test can cut. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TaskId } from "#core/ids.ts";
import { isFinal } from "#core/task.ts";
import type { Attestation } from "#core/wire/attestations.ts";
import type { WireResources } from "#core/wire/common.ts";
import type { Task, TaskRequest } from "#core/wire/tasks.ts";
import type { LogEvent } from "#executor/failure-reporter.ts";
import { type Executor, startExecutor } from "#executor/main.ts";
import type { AttemptEvent } from "#executor/run.ts";
import { type Client, ISSUER, type TestGateway } from "#test/gateway/gateway-under-test.ts";

/** Offered whatever this machine measures, so that the tests run the same everywhere. */
export const CAPACITY: Partial<WireResources> = {
  cpu_cores: 64,
  memory_mb: 16_384,
  pids: 16_384,
  disk_mb: 65_536,
  disk_iops: 100_000,
};

export type Finished = {
  task: Task;
  stdout: Buffer;
  stderr: Buffer;
  attestations: Attestation[];
  output(path: string): Promise<Buffer>;
};

export class Rig implements AsyncDisposable {
  readonly directory: string;
  readonly gateway: TestGateway;
  readonly client: Client;
  readonly token: string;
  readonly events: AttemptEvent[] = [];
  readonly logged: LogEvent[] = [];
  /** Every request that the executor made, in order. */
  readonly requests: string[] = [];
  readonly #executors: Executor[] = [];
  readonly #submitted: string[] = [];
  #line: "up" | "down" = "up";

  private constructor(directory: string, gateway: TestGateway, client: Client, token: string) {
    this.directory = directory;
    this.gateway = gateway;
    this.client = client;
    this.token = token;
  }

  /** @param gateway one that several rigs of a test file share, and that outlives this one */
  static async open(gateway: TestGateway): Promise<Rig> {
    const client = await gateway.client("tasks", "admin");
    const { secret } = await gateway.client("executors:enrol");
    return new Rig(await mkdtemp(join(tmpdir(), "dsec-executor-")), gateway, client, secret);
  }

  async start(options: Partial<Parameters<typeof startExecutor>[0]> = {}): Promise<Executor> {
    const executor = await startExecutor({
      gatewayUrl: ISSUER,
      token: this.token,
      dataDirectory: join(this.directory, "data"),
      capacity: CAPACITY,
      // In this process, unless it is told where the gateway listens.
      ...(options.gatewayUrl === undefined ? { fetch: this.fetch } : {}),
      log: (event) => this.logged.push(event),
      onEvent: (event) => this.events.push(event),
      ...options,
    });
    this.#executors.push(executor);
    return executor;
  }

  /** The executor's way to the gateway. While the line is cut every call fails as a dead host's does. */
  readonly fetch = async (request: Request): Promise<Response> => {
    this.#throwWhereCut();
    this.requests.push(`${request.method} ${new URL(request.url).pathname}`);
    const response = await this.gateway.app.fetch(request);
    this.#throwWhereCut(); // the gateway has acted, and its answer is lost
    return response;
  };

  #throwWhereCut(): void {
    if (this.#line === "down") throw new TypeError("fetch failed");
  }

  cutLine(): void {
    this.#line = "down";
  }

  mendLine(): void {
    this.#line = "up";
  }

  async submit(request: Partial<TaskRequest>): Promise<Task> {
    const task = await this.client.submit(request);
    this.#submitted.push(task.id);
    return task;
  }

  /** Submits a task and waits for its end and everything it left. */
  async run(request: Partial<TaskRequest>): Promise<Finished> {
    return this.finished((await this.submit(request)).id);
  }

  /** `sh -c script` as a task. */
  sh(script: string, request: Partial<TaskRequest> = {}): Promise<Finished> {
    return this.run({ command: ["sh", "-c", script], ...request });
  }

  get(taskId: string): Promise<Task> {
    return this.client.ok<Task>("GET", `/v1/tasks/${taskId}`);
  }

  /** Waits for the first output: the command is under way, which `running` does not say yet. */
  async begun(taskId: string): Promise<void> {
    for (;;) {
      const events = await this.gateway.store.listEvents(taskId as TaskId, 0, 10_000);
      if (events.some(({ type }) => type === "stdout")) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async until(taskId: string, reached: (task: Task) => boolean): Promise<Task> {
    for (;;) {
      const task = await this.get(taskId);
      if (reached(task)) return task;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async finished(taskId: string): Promise<Finished> {
    const task = await this.until(taskId, ({ state }) => isFinal(state));
    const bytes = async (path: string) => {
      const response = await this.client.send("GET", `/v1/tasks/${taskId}/${path}`);
      if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
      return Buffer.from(await response.arrayBuffer());
    };
    const ran = task.result !== null && task.state !== "dead";
    const { items } = await this.client.ok<{ items: Attestation[] }>(
      "GET",
      `/v1/tasks/${taskId}/attestations`,
    );
    return {
      task,
      stdout: ran ? await bytes("stdout") : Buffer.alloc(0),
      stderr: ran ? await bytes("stderr") : Buffer.alloc(0),
      attestations: items,
      output: (path) => bytes(`outputs/content?path=${encodeURIComponent(path)}`),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.mendLine();
    await Promise.all(this.#executors.map((executor) => executor.close().catch(() => {})));
    // The next rig on this gateway is not to meet tasks of this one.
    for (const id of this.#submitted) await this.client.ok("POST", `/v1/tasks/${id}/cancel`);
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** Waits for a condition on this side; the test's own time limit ends it. */
export async function eventually(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
}
