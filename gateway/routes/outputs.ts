/** What a finished task left: its output files and what it wrote to stdout and stderr. */

import { OpenAPIHono } from "@hono/zod-openapi";
import { DsecError } from "#core/errors.ts";
import type { Digest, TaskId } from "#core/ids.ts";
import { nearest } from "#core/nearest-name.ts";
import { isFinal } from "#core/task.ts";
import { OutputContentQuerySchema, OutputListSchema, type Task } from "#core/wire/tasks.ts";
import { ownerOf } from "../auth.ts";
import type { Env, Gateway } from "../environment.ts";
import { serve } from "../openapi-route.ts";
import { content, json } from "../reply.ts";
import { TaskParams } from "./tasks.ts";

const BYTES = { description: "the bytes, unchanged", body: "application/octet-stream" };

export function outputRoutes(gateway: Gateway): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, blobs } = gateway;

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}/outputs",
      tag: "outputs",
      summary: "List a task's outputs",
      access: ["tasks", "admin"],
      params: TaskParams,
      responses: { 200: { description: "path, digest and size of each", body: OutputListSchema } },
    },
    async (c, { caller, params }) => {
      const task = await store.getTask(params.id as TaskId, ownerOf(caller));
      return json(c, { items: task.result?.outputs ?? [] });
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/v1/tasks/{id}/outputs/content",
      tag: "outputs",
      summary: "Download one output",
      description: "`path` is spelt as in the list of outputs. ETag is the content's digest.",
      access: ["tasks", "admin"],
      params: TaskParams,
      query: OutputContentQuerySchema,
      responses: { 200: BYTES },
    },
    async (c, { caller, params, query }) => {
      const task = await store.getTask(params.id as TaskId, ownerOf(caller));
      const output = task.result?.outputs.find(({ path }) => path === query.path);
      if (output === undefined) throw noSuchOutput(task, query.path);
      const { digest, size } = output;
      return content(c, blobs, {
        digest: digest as Digest,
        size,
        name: fileName(output.path),
        missing: () => lost(task, output.path),
      });
    },
  );

  for (const stream of ["stdout", "stderr"] as const) {
    serve(
      app,
      gateway,
      {
        method: "get",
        path: `/v1/tasks/{id}/${stream}`,
        tag: "outputs",
        summary: `Download what a task wrote to ${stream}`,
        description: "The bytes that were kept, once the task is final; follow the events to see them live.",
        access: ["tasks", "admin"],
        params: TaskParams,
        responses: { 200: BYTES },
      },
      async (c, { caller, params }) => {
        const task = await store.getTask(params.id as TaskId, ownerOf(caller));
        if (task.result === null) throw noResult(task, stream);
        const { digest, kept_bytes } = task.result[stream];
        return content(c, blobs, {
          digest: digest as Digest,
          size: kept_bytes,
          name: `${task.id}.${stream}`,
          missing: () => lost(task, stream),
        });
      },
    );
  }
  return app;
}

/** The last member of an output's path; the percent sign stands escaped there, names of other bytes stay escaped. */
function fileName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1).replaceAll("%25", "%");
}

function noSuchOutput(task: Task, path: string): DsecError {
  if (task.result === null) return noResult(task, path);
  const paths = task.result.outputs.map((output) => output.path);
  const meant = nearest(path, paths);
  return new DsecError(
    "OUTPUT_NOT_FOUND",
    `${task.id} has no output ${path.slice(0, 200)}; ${meant === undefined ? `it has ${paths.length}, see /v1/tasks/${task.id}/outputs` : `did you mean ${meant}?`}`,
  );
}

function noResult(task: Task, what: string): DsecError {
  const why = isFinal(task.state)
    ? `${task.id} is ${task.state} and no attempt left a result`
    : `${task.id} is ${task.state}; wait for its end (GET /v1/tasks/${task.id}/events)`;
  return new DsecError("OUTPUT_NOT_FOUND", `${what.slice(0, 200)} is not there: ${why}`);
}

function lost(task: Task, what: string): DsecError {
  return new DsecError(
    "OUTPUT_NOT_FOUND",
    `the content of ${what} of ${task.id} is no longer in the blob store`,
  );
}
