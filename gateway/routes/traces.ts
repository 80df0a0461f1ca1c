/** What was recorded of a task's attempts: sealed once they end, and as far as it has come while they run. */
import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import { decodeJwt } from "jose";
import { DsecError } from "#core/errors.ts";
import type { Digest, ExecutorId, KeyId, TaskId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { isFinal } from "#core/task.ts";
import { AttestationClaimsSchema, type TraceSummary } from "#core/wire/attestations.ts";
import type { Hold } from "#core/wire/leases.ts";
import {
  LeaseTraceQuerySchema,
  TracePartQuerySchema,
  TracePartResponseSchema,
  TraceQuerySchema,
} from "#core/wire/trace.ts";
import { ownerOf } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import type { TrajectoryPart } from "../ports.ts";
import { content, contentDisposition, json, noContent } from "../reply.ts";
import { readRawBytes } from "../request.ts";
import { holdOf, LeaseParams } from "./lease-ends.ts";
import { TaskParams } from "./tasks.ts";
import { type Trajectory, trajectoryStream } from "./trajectory-stream.ts";

const BYTES = "application/octet-stream";

export function traceRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, blobs } = gateway;

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}/trace",
      tag: "tasks",
      summary: "Download or follow the trace of a task",
      description:
        "The recording of one attempt, the newest unless `attempt` says which. Of an attempt that was attested, also a failed one, it is the sealed file that the attestation names; of any other as much of the trajectory as its executor has sent. With `follow` the trajectory's bytes come as they are sent, from `offset` on, until the attempt ends or the gateway stops; asking on after an attempt that has ended is 204. DSEC-Attempt says which attempt it is, where it has begun: who asks on names it as `attempt`. DSEC-Trace says whether what is downloaded is sealed or open.",
      access: ["tasks", "admin"],
      params: TaskParams,
      query: TraceQuerySchema,
      waits: true,
      responses: {
        200: { description: "the bytes", body: BYTES },
        204: { description: "followed: the attempt is over and everything was seen", body: null },
      },
    },
    async (c, { caller, params, query }) => {
      const id = params.id as TaskId;
      const owner = ownerOf(caller);
      if (!query.follow)
        return send(c, id, wanted(id, await recordings(id, owner), query.attempt), query.offset);
      // Asked for now, so that a task which is not there, or not the caller's, is an answer and not an empty stream.
      await store.getTask(id, owner);
      const next = async (): Promise<Recording | typeof NOT_BEGUN | null> => {
        const known = await recordings(id, owner);
        const found = known.find(({ attempt }) => query.attempt === undefined || attempt === query.attempt);
        if (found !== undefined) return found;
        return isFinal((await store.getTask(id, owner)).state) ? null : NOT_BEGUN;
      };
      const headers = {
        "Content-Type": BYTES,
        "Cache-Control": "no-store, no-transform",
        "X-Accel-Buffering": "no",
      };
      const now = await next();
      if (now === null || (!now.held && query.offset >= now.size)) return noContent(c);
      if (now.fence !== null) c.header("DSEC-Attempt", String(now.attempt));
      if (c.req.method === "HEAD") return c.body(null, 200, headers);
      return c.body(trajectoryStream(gateway, c, id, { from: query.offset, next }), 200, headers);
    },
  );

  serve(
    app,
    gateway,
    {
      method: "post",
      path: "/v1/leases/{id}/trace",
      tag: "leases",
      summary: "Send a part of a running attempt's trajectory",
      description:
        "`offset` is the part's place in the file, which only grows. A part that is known already changes nothing; one that leaves a gap is TRACE_GAP, whose details say how far the trajectory is known.",
      access: ["executor"],
      params: LeaseParams,
      query: TracePartQuerySchema,
      body: "bytes",
      responses: { 200: { description: "how far it is known now", body: TracePartResponseSchema } },
    },
    async (c, { caller, params, query }) => {
      const hold = holdOf(params.id, query.fence);
      const content = await readRawBytes(c, LIMITS.trajectoryPartBytes);
      if (content.length === 0)
        throw new DsecError("INVALID_REQUEST", "a part of a trajectory has at least one byte");
      const part = await placed(caller.executorId, hold, content);
      return json(
        c,
        await store.appendTrajectory(caller.executorId, hold, { offset: query.offset, ...part }),
      );
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/leases/{id}/trace",
      tag: "leases",
      summary: "Download what was recorded of an earlier attempt",
      description:
        "For the executor that holds the task now: the newest attempt before its own, or before the fence `before`, or the one that `attempt` names. The same bytes and headers as for the task's owner.",
      access: ["executor"],
      params: LeaseParams,
      query: LeaseTraceQuerySchema,
      responses: { 200: { description: "the bytes", body: BYTES } },
    },
    async (c, { caller, params, query }) => {
      const { taskId, fence } = await store.findLease(caller.executorId, holdOf(params.id, query.fence));
      const before = Math.min(fence, query.before ?? fence);
      const earlier = (await recordings(taskId, null)).filter((recording) => recording.fence < before);
      return send(c, taskId, wanted(taskId, earlier, query.attempt), query.offset);
    },
  );

  /** Where a part is kept. The statement that takes a short one refuses it too; for a long one it is asked before. */
  async function placed(executorId: ExecutorId, hold: Hold, content: Uint8Array): Promise<TrajectoryPart> {
    const size = content.length;
    if (size <= LIMITS.trajectoryRowBytes) return { size, digest: null, content };
    await store.findLease(executorId, hold);
    const body = new Blob([content as Uint8Array<ArrayBuffer>]).stream();
    return { ...(await blobs.put(null, body, size)), content: null };
  }

  /** Of each attempt that is recorded in any way, the newest first. */
  async function recordings(id: TaskId, owner: KeyId | null): Promise<Recording[]> {
    const [attestations, trajectories] = await Promise.all([
      store.listAttestations(id, owner),
      store.listTrajectories(id, owner),
    ]);
    const found = new Map<number, Recording>();
    for (const trajectory of trajectories) found.set(trajectory.fence, { ...trajectory, trace: null });
    for (const { fence, jwt } of attestations) {
      // Our own signature, made from the evidence and kept beside it.
      const { attempt, trace } = AttestationClaimsSchema.parse(decodeJwt(jwt)).dsec;
      found.set(fence, { size: 0, ...found.get(fence), fence, attempt, held: false, trace });
    }
    return [...found.values()].sort((a, b) => b.fence - a.fence);
  }

  async function send(c: Context, id: TaskId, recording: Recording, offset: number): Promise<Response> {
    const { attempt, fence, size, trace } = recording;
    c.header("DSEC-Attempt", String(attempt));
    c.header("DSEC-Trace", trace === null ? "open" : "sealed");
    if (trace !== null) {
      const missing = () =>
        new DsecError(
          "OUTPUT_NOT_FOUND",
          `the trace of attempt ${attempt} of ${id} is no longer in the blob store`,
        );
      const name = `${id}-${attempt}.trace`;
      return content(c, blobs, { digest: trace.digest as Digest, size: trace.size, name, missing });
    }
    const headers = {
      "Content-Type": BYTES,
      "Content-Disposition": contentDisposition(`${id}-${attempt}.traj`),
      "Content-Length": String(Math.max(0, size - offset)),
      "Cache-Control": "no-store",
    };
    if (c.req.method === "HEAD") return c.body(null, 200, headers);
    const next = async () => ({ fence, size, held: false });
    return c.body(trajectoryStream(gateway, c, id, { from: offset, next }), 200, headers);
  }

  return app;
}

type Recording = Trajectory & { fence: number; attempt: number; trace: TraceSummary | null };

/** A task that waits for its first attempt. */
const NOT_BEGUN = { fence: null, size: 0, held: true } as const satisfies Trajectory;

function wanted(id: TaskId, recordings: Recording[], attempt: number | undefined): Recording {
  const kept = recordings.filter(({ trace, size }) => trace !== null || size > 0);
  const found = kept.find((recording) => attempt === undefined || recording.attempt === attempt);
  if (found !== undefined) return found;
  const [newest] = recordings;
  const of = attempt === undefined ? id : `attempt ${attempt} of ${id}`;
  const why =
    kept.length > 0
      ? `there are those of ${kept.map((recording) => recording.attempt).join(", ")}`
      : newest?.held
        ? "it runs, and what it does has not come here yet; follow it"
        : "no attempt of it came to a sandbox";
  throw new DsecError("OUTPUT_NOT_FOUND", `nothing is recorded of ${of}: ${why}`);
}
