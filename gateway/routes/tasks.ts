/** Tasks as their client sees them: submit, get, list, cancel. */
import { OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { DsecError } from "#core/errors.ts";
import { type Digest, type KeyId, newId, type TaskId } from "#core/ids.ts";
import { canonicalJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { nearest } from "#core/nearest-name.ts";
import { hasImage, wireAmount } from "#core/placement.ts";
import { refusePrivateBeyond } from "#core/policy/compile.ts";
import { INSUFFICIENT, neverFits, type Resources, WIRE_NAME } from "#core/resources.ts";
import { TaskIdSchema } from "#core/wire/common.ts";
import { TaskWaitSchema } from "#core/wire/task-wait.ts";
import {
  footprint,
  TaskListQuerySchema,
  TaskPageSchema,
  TaskSchema,
  type TaskSpec,
  TaskSpecSchema,
} from "#core/wire/tasks.ts";
import { ownerOf } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { json } from "../reply.ts";
import { answerWithEvents } from "./events.ts";

export const TaskParams = z.strictObject({ id: TaskIdSchema });
const IdempotencyHeaders = z.object({
  "idempotency-key": z.string().min(1).max(LIMITS.idempotencyKeyChars).optional(),
});

export function taskRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store } = gateway;
  const capacities = capacityCache(gateway);

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/tasks",
      tag: "tasks",
      summary: "Submit a task",
      description:
        "With an Idempotency-Key, sending the same task again returns the first one (200), also where it would be refused by now. What no registered executor could ever satisfy is refused; while none is registered the task waits for one. With `Accept: text/event-stream` the answer is the task, as an event `task` without an id, followed by all its events: what a submission and then `GET /v1/tasks/{id}/events` give, in one request.",
      access: ["tasks"],
      headers: IdempotencyHeaders,
      body: TaskSpecSchema,
      responses: {
        201: { description: "the task, queued", body: TaskSchema },
        200: { description: "the task that this Idempotency-Key made before", body: TaskSchema },
      },
    },
    async (c, { caller, body: spec }) => {
      const keyId = caller.key.id as KeyId;
      const idempotencyKey = idempotencyKeyOf(c);
      const specDigest = await gateway.crypto.sha256(canonicalJson(spec));
      const id = newId("task");
      const submit = async () => {
        refusePrivateBeyond(spec.policy, gateway.config.privateNetworks ?? []);
        await refuseUnknownArtifacts(gateway, keyId, spec);
        await refuseImpossible(spec, capacities);
        return gateway.freshFeeds.over(id, keyId, () =>
          store.submitTask({ id, keyId, spec, specDigest, idempotencyKey }),
        );
      };
      const { task, created } = await submit().catch(async (refusal: unknown) => {
        // What was accepted once stays so, whatever has become impossible since: its client may have had no answer.
        const first = idempotencyKey && (await store.findSubmission(keyId, idempotencyKey, specDigest));
        if (!first) throw refusal;
        return { task: first, created: false };
      });
      gateway.metrics.count("dsec_tasks_submitted_total", "Tasks accepted.", { created: String(created) });
      c.header("Location", `/v1/tasks/${task.id}`);
      const status = created ? 201 : 200;
      return wantsEvents(c) ? answerWithEvents(gateway, c, task, status) : json(c, task, status);
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}",
      tag: "tasks",
      summary: "Get a task",
      access: ["tasks", "admin"],
      params: TaskParams,
      responses: { 200: { description: "the task", body: TaskSchema } },
    },
    async (c, { caller, params }) => json(c, await store.getTask(params.id as TaskId, ownerOf(caller))),
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}/wait",
      tag: "tasks",
      summary: "Say why a queued task does not run yet",
      description:
        "No executor is connected, none has the image or is large enough, none has room at the moment and on which axis, other tasks are before it, or it is held back after an attempt that failed. `wait` is null for a task that is not queued.",
      access: ["tasks", "admin"],
      params: TaskParams,
      responses: { 200: { description: "why it waits", body: TaskWaitSchema } },
    },
    async (c, { caller, params }) => json(c, await store.taskWait(params.id as TaskId, ownerOf(caller))),
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks",
      tag: "tasks",
      summary: "List tasks, newest first",
      access: ["tasks", "admin"],
      query: TaskListQuerySchema,
      responses: { 200: { description: "a page of tasks", body: TaskPageSchema } },
    },
    async (c, { caller, query: { label, ...query } }) =>
      json(
        c,
        await store.listTasks({
          ...query,
          keyId: ownerOf(caller),
          label: label === undefined ? undefined : labelOf(label),
        }),
      ),
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/tasks/{id}/cancel",
      tag: "tasks",
      summary: "Cancel a task",
      description:
        "A queued task is cancelled at once; a running one within about a second, and then attested like any other attempt. A final task stays as it is.",
      access: ["tasks", "admin"],
      params: TaskParams,
      responses: { 200: { description: "the task as it is now", body: TaskSchema } },
    },
    async (c, { caller, params }) => json(c, await store.cancelTask(params.id as TaskId, ownerOf(caller))),
  );

  return app;
}

function wantsEvents(c: Context): boolean {
  const accepted = c.req.header("accept")?.split(",") ?? [];
  return accepted.some((range) => range.split(";")[0]!.trim().toLowerCase() === "text/event-stream");
}

export function idempotencyKeyOf(c: Context): string | null {
  const key = c.req.header("idempotency-key");
  if (key === undefined) return null;
  if (/^[\x21-\x7e]{1,200}$/.test(key)) return key;
  throw new DsecError(
    "INVALID_REQUEST",
    `Idempotency-Key must be 1 to ${LIMITS.idempotencyKeyChars} visible ASCII characters without spaces, such as a UUID`,
  );
}

function labelOf(text: string): { name: string; value: string } {
  const at = text.indexOf("=");
  if (at > 0) return { name: text.slice(0, at), value: text.slice(at + 1) };
  throw new DsecError("INVALID_REQUEST", "the query: label: must be name=value");
}

async function refuseUnknownArtifacts({ store }: Gateway, keyId: KeyId, spec: TaskSpec): Promise<void> {
  const { inputs, continues } = spec;
  if (inputs.length === 0 && continues === null) return;
  const named = inputs.map((input) => input.artifact);
  const digests = [...new Set([...named, ...(continues === null ? [] : [continues.trace])])] as Digest[];
  const unknown = await store.unknownArtifacts(keyId, digests);
  if (unknown.length === 0) return;
  const more = unknown.length > 1 ? ` (and ${unknown.length - 1} more, see details.artifacts)` : "";
  throw new DsecError(
    "ARTIFACT_NOT_FOUND",
    `the task names artifact ${unknown[0]}${more}, which this key neither uploaded nor got as an output; upload it first (PUT /v1/artifacts)`,
    { details: { artifacts: unknown } },
  );
}

type Capacities = { capacity: Resources; images: string[] }[];
/** How long the list of executors is reused for accepting; a refusal is always judged on a fresh one. */
const CAPACITIES_MS = 1_000;

function capacityCache({ store, now }: Gateway): (fresh: boolean) => Promise<Capacities> {
  let cached: { at: number; value: Capacities } | undefined;
  return async (fresh) => {
    const at = now();
    if (!fresh && cached !== undefined && Math.abs(at - cached.at) < CAPACITIES_MS) return cached.value;
    const value = await store.capacities();
    // Nothing is remembered of a time without executors: it ends with the first one, which must count at once.
    cached = value.length === 0 ? undefined : { at, value };
    return value;
  };
}

async function refuseImpossible(
  spec: TaskSpec,
  capacities: (fresh: boolean) => Promise<Capacities>,
): Promise<void> {
  if (impossible(spec, await capacities(false)) === undefined) return;
  const refusal = impossible(spec, await capacities(true));
  if (refusal !== undefined) throw refusal;
}

/**
 * Why no registered executor could ever run the task. While none is registered nothing is impossible: the first
 * may be about to start.
 */
function impossible(spec: TaskSpec, executors: Capacities): DsecError | undefined {
  if (executors.length === 0) return undefined;
  const able = executors.filter(({ images }) => hasImage(spec.image, images));
  if (able.length === 0) {
    const known = [...new Set(["host", ...executors.flatMap(({ images }) => images)])].sort();
    const meant = nearest(spec.image, known);
    return new DsecError(
      "IMAGE_NOT_FOUND",
      `no executor has the image ${spec.image}; ${meant === undefined ? "" : `did you mean ${meant}? `}import it with dsec image import`,
      { details: { image: spec.image, known: known.slice(0, 100) } },
    );
  }
  const asked = footprint(spec);
  const failing = neverFits(
    asked,
    able.map(({ capacity }) => capacity),
  );
  if (failing === undefined) return undefined;
  const { axis, largest } = failing;
  const details = {
    axis: WIRE_NAME[axis],
    asked: wireAmount(axis, asked[axis]),
    largest: wireAmount(axis, largest),
  };
  return new DsecError(
    INSUFFICIENT[axis],
    `the task asks for ${details.asked} ${details.axis}; the most that an executor which could run it has is ${details.largest}`,
    { details },
  );
}
