/**
 * The typed client of a DSec gateway. Runs wherever fetch does. Every answer has been through the schema that the
 * gateway's routes are made from; every refusal is a `DsecError` with the gateway's code.
 */
import { z } from "zod";
import { DsecError } from "#core/errors.ts";
import { type Json, sha256 } from "#core/json.ts";
import { isFinal } from "#core/task.ts";
import {
  type Attestation,
  type AttestationClaims,
  AttestationListSchema,
  JwksSchema,
  VerifyResponseSchema,
} from "#core/wire/attestations.ts";
import { type Receipt, ReceiptPageSchema } from "#core/wire/calls.ts";
import { type Executor, ExecutorPageSchema, ExecutorSchema } from "#core/wire/executors.ts";
import { type Key, type KeyCreate, KeyCreatedSchema, KeyPageSchema, KeySchema } from "#core/wire/keys.ts";
import { type Observation, ObservationSchema } from "#core/wire/observations.ts";
import type { PolicyRequest } from "#core/wire/policy.ts";
import { type Secret, SecretListSchema, SecretSchema } from "#core/wire/secrets.ts";
import { type TaskWait, TaskWaitSchema } from "#core/wire/task-wait.ts";
import {
  ArtifactSchema,
  type Output,
  OutputSchema,
  type Task,
  type TaskEvent,
  TaskPageSchema,
  type TaskRequest,
  TaskSchema,
} from "#core/wire/tasks.ts";
import { followEvents, submitAndFollow } from "./task-events.ts";
import { followTrajectoryBytes } from "./task-trajectory.ts";
import { type Call, createTransport, type Transport, type TransportOptions } from "./transport.ts";

export type ClientOptions = TransportOptions;
export type Paging = { limit?: number; cursor?: string };
export type TaskFilter = { state?: Task["state"] /** `name=value` */; label?: string };
type Signalled = { signal?: AbortSignal };

export type Client = ReturnType<typeof createClient>;

export function createClient(options: ClientOptions) {
  const transport = createTransport(options);
  return {
    /** Origin of the gateway this client talks to. */
    gateway: transport.gateway,
    tasks: taskCalls(transport),
    artifacts: artifactCalls(transport),
    keys: keyCalls(transport),
    executors: executorCalls(transport),
    attestations: attestationCalls(transport),
    secrets: secretCalls(transport),

    /** The public keys that attestations verify with (RFC 7517). */
    async jwks(): Promise<z.output<typeof JwksSchema>> {
      return transport.sendFor(JwksSchema, {
        method: "GET",
        path: "/.well-known/jwks.json",
        idempotent: true,
      });
    },
  };
}

function taskCalls(transport: Transport) {
  const path = (id: string, rest = "") => `/v1/tasks/${encodeURIComponent(id)}${rest}`;
  const kept = (id: string, rest: string, query: Record<string, string> = {}): Call => ({
    method: "GET",
    path: path(id, rest),
    query,
    idempotent: true,
  });

  const submission = (request: TaskRequest, given: { idempotencyKey?: string } & Signalled): Call => ({
    method: "POST",
    path: "/v1/tasks",
    headers: { "idempotency-key": given.idempotencyKey ?? crypto.randomUUID() },
    json: request,
    idempotent: true,
    signal: given.signal,
  });

  const calls = {
    /**
     * Submits a task. Without a key of the caller's own one is made, so that a repeat after a lost answer finds
     * the first task. Throws INSUFFICIENT_… when no executor could ever hold it.
     */
    async submit(request: TaskRequest, given: { idempotencyKey?: string } & Signalled = {}): Promise<Task> {
      return transport.sendFor(TaskSchema, submission(request, given));
    },

    /**
     * Submits a task as `submit` does and follows it as `events` does, in one request: its first output comes sooner by a
     * round trip. The connection is held until `events` has ended or the signal aborts; where `events` are not read it is given
     * up as one that says nothing is, and there is another once they are.
     */
    async follow(
      request: TaskRequest,
      given: { idempotencyKey?: string } & Signalled = {},
    ): Promise<{ task: Task; events: AsyncGenerator<TaskEvent> }> {
      return submitAndFollow(transport, submission(request, given), (id) => path(id, "/events"));
    },

    async get(id: string, { signal }: Signalled = {}): Promise<Task> {
      return transport.sendFor(TaskSchema, { method: "GET", path: path(id), idempotent: true, signal });
    },

    /** Why a queued task does not run yet. */
    async whyQueued(id: string, { signal }: Signalled = {}): Promise<TaskWait> {
      return transport.sendFor(TaskWaitSchema, {
        ...{ method: "GET", path: path(id, "/wait"), idempotent: true, signal },
      });
    },

    /** One page, newest first; pass `next_cursor` back as `cursor` until it is null. */
    async list(query: Paging & TaskFilter = {}): Promise<{ items: Task[]; next_cursor: string | null }> {
      return transport.sendFor(TaskPageSchema, { method: "GET", path: "/v1/tasks", query, idempotent: true });
    },

    /** Every task that matches, page after page. */
    all(filter: TaskFilter = {}): AsyncGenerator<Task> {
      return everyPage((paging) => calls.list({ ...filter, ...paging }));
    },

    /** Asks for the end of a task. A running one ends within about a second; a final one stays as it is. */
    async cancel(id: string): Promise<Task> {
      return transport.sendFor(TaskSchema, { method: "POST", path: path(id, "/cancel"), idempotent: true });
    },

    /**
     * The events of a task from `after` (a sequence number; 0 is the start) to its last state, live, and over
     * dropped connections. Output is base64 of bytes; `decodeData` gives the bytes.
     */
    events(id: string, given: { after?: number } & Signalled = {}): AsyncGenerator<TaskEvent> {
      return followEvents(transport, path(id, "/events"), given);
    },

    /** Resolves with the task once it is final. */
    async wait(id: string, { signal }: Signalled = {}): Promise<Task> {
      let task = await calls.get(id, signal ? { signal } : {});
      while (!isFinal(task.state)) {
        for await (const _ of calls.events(id, signal ? { signal } : {}));
        task = await calls.get(id, signal ? { signal } : {});
      }
      return task;
    },

    async outputs(id: string): Promise<Output[]> {
      const call = { method: "GET", path: path(id, "/outputs"), idempotent: true } as const;
      return (await transport.sendFor(z.object({ items: z.array(OutputSchema) }), call)).items;
    },

    /** The content of one output; `path` as `outputs` lists it. Throws DIGEST_MISMATCH when it was changed. */
    async output(id: string, output: Pick<Output, "path" | "digest">): Promise<Uint8Array> {
      const content = await transport.sendForBytes(kept(id, "/outputs/content", { path: output.path }));
      return checked(content, output.digest, `output ${output.path} of ${id}`);
    },

    /** What was kept of standard output or error, as bytes. */
    async stream(id: string, name: "stdout" | "stderr"): Promise<Uint8Array> {
      return transport.sendForBytes(kept(id, `/${name}`));
    },

    /** One for each attempt that ended under a living executor, newest first. */
    async attestations(id: string): Promise<Attestation[]> {
      const call = { method: "GET", path: path(id, "/attestations"), idempotent: true } as const;
      return (await transport.sendFor(AttestationListSchema, call)).items;
    },

    /** The receipts of the calls that the task made, in the order of attempts and calls. */
    receipts(id: string): AsyncGenerator<Receipt> {
      return everyPage((paging) =>
        transport.sendFor(ReceiptPageSchema, {
          method: "GET",
          path: path(id, "/receipts"),
          query: paging,
          idempotent: true,
        }),
      );
    },

    /**
     * The sealed trace of one attempt, the newest unless it is named; `dsec trace validate` checks it. The stream errors with
     * GATEWAY_UNREACHABLE where it breaks off.
     */
    async trace(id: string, { attempt }: { attempt?: number } = {}): Promise<ReadableStream<Uint8Array>> {
      const query = attempt === undefined ? {} : { attempt: String(attempt) };
      return transport.sendForStream(kept(id, "/trace", query));
    },

    /**
     * The trajectory of a running attempt, the newest unless it is named, as its bytes come to the gateway, over dropped
     * connections; ends with the attempt. Its last events are in the sealed trace alone.
     */
    followTrace(id: string, given: { attempt?: number } & Signalled = {}): AsyncGenerator<Uint8Array> {
      return followTrajectoryBytes(transport, path(id, "/trace"), given);
    },

    /** Puts an observation into the running sandbox: its agent is given it with its next answer. */
    async observe(id: string, content: Json, given: { idempotencyKey?: string } = {}): Promise<Observation> {
      return transport.sendFor(ObservationSchema, {
        method: "POST",
        path: path(id, "/observations"),
        headers: { "idempotency-key": given.idempotencyKey ?? crypto.randomUUID() },
        json: { content },
        idempotent: true,
      });
    },

    /** Replaces what the task may reach; its next calls are judged by it within a second. */
    async setPolicy(id: string, policy: PolicyRequest): Promise<void> {
      await transport.send({ method: "PUT", path: path(id, "/policy"), json: policy, idempotent: true });
    },
  };
  return calls;
}

function secretCalls(transport: Transport) {
  return {
    /** Makes or replaces a secret that the gateway puts into calls to these hosts; nobody can read it back. */
    async put(secret: { name: string; value: string; hosts: string[] }): Promise<Secret> {
      const call = { method: "POST", path: "/v1/secrets", json: secret, idempotent: true } as const;
      return transport.sendFor(SecretSchema, call);
    },
    async list(): Promise<Secret[]> {
      const call = { method: "GET", path: "/v1/secrets", idempotent: true } as const;
      return (await transport.sendFor(SecretListSchema, call)).items;
    },
    async delete(name: string): Promise<void> {
      await transport.send({
        method: "DELETE",
        path: `/v1/secrets/${encodeURIComponent(name)}`,
        idempotent: true,
      });
    },
  };
}

function artifactCalls(transport: Transport) {
  return {
    /** Stores content and returns its address. Storing it again is no error. */
    async put(content: Uint8Array | ReadableStream<Uint8Array>, { signal }: Signalled = {}) {
      const call = {
        method: "PUT",
        path: "/v1/artifacts",
        bytes: content,
        idempotent: true,
        signal,
      } as const;
      return transport.sendFor(ArtifactSchema, call);
    },

    /** Throws DIGEST_MISMATCH when what comes back is not what the address says. */
    async get(digest: string): Promise<Uint8Array> {
      const path = `/v1/artifacts/${encodeURIComponent(digest)}`;
      const content = await transport.sendForBytes({ method: "GET", path, idempotent: true });
      return checked(content, digest, `artifact ${digest}`);
    },
  };
}

function keyCalls(transport: Transport) {
  const list = (paging: Paging = {}): Promise<{ items: Key[]; next_cursor: string | null }> =>
    transport.sendFor(KeyPageSchema, { method: "GET", path: "/v1/keys", query: paging, idempotent: true });
  return {
    /** The only answer that holds the secret. Not repeated by itself: a lost answer may have made a key. */
    async create(key: KeyCreate): Promise<z.output<typeof KeyCreatedSchema>> {
      return transport.sendFor(KeyCreatedSchema, {
        method: "POST",
        path: "/v1/keys",
        json: key,
        idempotent: false,
      });
    },
    list,
    all: (): AsyncGenerator<Key> => everyPage(list),
    async revoke(id: string): Promise<Key> {
      const path = `/v1/keys/${encodeURIComponent(id)}/revoke`;
      return transport.sendFor(KeySchema, { method: "POST", path, idempotent: true });
    },
  };
}

function executorCalls(transport: Transport) {
  const list = (paging: Paging = {}): Promise<{ items: Executor[]; next_cursor: string | null }> =>
    transport.sendFor(ExecutorPageSchema, {
      method: "GET",
      path: "/v1/executors",
      query: paging,
      idempotent: true,
    });
  return {
    list,
    all: (): AsyncGenerator<Executor> => everyPage(list),
    /** Gives it no further lease; what it runs ends in peace. */
    async drain(id: string): Promise<Executor> {
      const path = `/v1/executors/${encodeURIComponent(id)}/drain`;
      return transport.sendFor(ExecutorSchema, { method: "POST", path, idempotent: true });
    },
  };
}

function attestationCalls(transport: Transport) {
  return {
    /** The gateway's own word on a token. To depend on nobody, verify with the JWKS instead (`dsec verify`). */
    async verify(jwt: string, nonce?: string): Promise<AttestationClaims> {
      const json = { jwt, ...(nonce === undefined ? {} : { nonce }) };
      const call = { method: "POST", path: "/v1/attestations/verify", json, idempotent: true } as const;
      return (await transport.sendFor(VerifyResponseSchema, call)).claims;
    },
  };
}

async function* everyPage<T>(
  page: (paging: Paging) => Promise<{ items: T[]; next_cursor: string | null }>,
): AsyncGenerator<T> {
  let cursor: string | null | undefined;
  do {
    const { items, next_cursor } = await page(cursor ? { cursor } : {});
    yield* items;
    cursor = next_cursor;
  } while (cursor !== null);
}

async function checked(bytes: Uint8Array, digest: string, what: string): Promise<Uint8Array> {
  const actual = await sha256(bytes);
  if (actual === digest) return bytes;
  throw new DsecError(
    "DIGEST_MISMATCH",
    `${what}: the content is ${actual}, not ${digest}; it was changed on its way`,
  );
}
