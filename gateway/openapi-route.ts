/**
 * One definition of a route serves it, guards it and documents it. Bodies are not left to the library's own
 * validators, which read with JSON.parse and without bounds; params and query go through the same strict judge.
 */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { z } from "zod";
import type { ErrorCode } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { ErrorBodySchema } from "#core/wire/common.ts";
import type { Access, CallerOf } from "./auth.ts";
import type { Env, Gateway } from "./environment.ts";
import { readJson, validate } from "./request.ts";

type Fields = z.ZodObject | undefined;

export type Definition<
  A extends readonly Access[],
  P extends Fields,
  Q extends Fields,
  B extends z.ZodType | "bytes" | undefined,
> = {
  method: "get" | "post" | "put" | "delete";
  /** OpenAPI form, `/v1/tasks/{id}` */
  path: string;
  tag: string;
  summary: string;
  description?: string;
  /** One of these is enough; none means public. */
  access: A;
  params?: P;
  query?: Q;
  headers?: z.ZodObject;
  /** A JSON schema, or `bytes` where the handler reads the stream itself. */
  body?: B;
  bodyMaxBytes?: number;
  /** What a body that its schema refuses is called; INVALID_REQUEST unless given. */
  bodyInvalid?: ErrorCode;
  /** By status: a schema, or a content type for what is not JSON, or null for no content. */
  responses: Record<number, { description: string; body: z.ZodType | string | null }>;
  /** Held open or streamed on purpose: its duration says nothing. */
  waits?: boolean;
};

type Output<S> = S extends z.ZodType ? z.output<S> : undefined;
export type Input<A extends readonly Access[], P, Q, B> = {
  caller: CallerOf<A>;
  params: Output<P>;
  query: Output<Q>;
  body: Output<B>;
};

/** Serves a route: authenticates, takes from the caller's rate, judges every input, then calls the handler. */
export function serve<
  const A extends readonly Access[],
  P extends Fields = undefined,
  Q extends Fields = undefined,
  B extends z.ZodType | "bytes" | undefined = undefined,
>(
  app: OpenAPIHono<Env>,
  gateway: Gateway,
  definition: Definition<A, P, Q, B>,
  handle: (c: Context<Env>, input: Input<A, P, Q, B>) => Response | Promise<Response>,
): void {
  document(app, definition);
  const { params, query, body, bodyMaxBytes, bodyInvalid, access, waits } = definition;
  const pattern = definition.path.replaceAll(/\{(\w+)\}/g, ":$1");
  app.on(definition.method.toUpperCase(), pattern, async (c) => {
    // Waiting routes are counted under a name of their own so that they do not drown the durations.
    c.set("route", waits ? `${definition.path} (waits)` : definition.path);
    const caller = await gateway.auth.authenticate(c.req.header("authorization"), access);
    // Executors are ours and speak for many tasks each: they have no rate. Nor have probes and the key set, but
    // what anybody may send us to work on has one for all strangers together.
    if (caller.kind === "key") gateway.limiter.take(caller.key.id);
    if (caller.kind === "anonymous" && body !== undefined) gateway.limiter.take("anonymous");
    const input = {
      caller,
      params: params && validate(params, c.req.param(), `the path ${c.req.path.slice(0, 200)}`),
      query: query && validate(query, singleQuery(c), "the query"),
      body:
        body === undefined || body === "bytes"
          ? undefined
          : await readJson(c, body, bodyMaxBytes ?? LIMITS.requestBodyBytes, bodyInvalid),
    };
    return handle(c, input as Input<A, P, Q, B>);
  });
}

/** Query members; one that is given twice becomes an array, which no schema takes: neither value wins in silence. */
function singleQuery(c: Context): Record<string, string | string[]> {
  return Object.fromEntries(
    Object.entries(c.req.queries()).map(([name, values]) => [
      name,
      values.length === 1 ? values[0]! : values,
    ]),
  );
}

function document(
  app: OpenAPIHono<Env>,
  route: Definition<readonly Access[], Fields, Fields, z.ZodType | "bytes" | undefined>,
): void {
  const { method, path, tag, summary, description, access, params, query, headers, body } = route;
  const responses = Object.entries(route.responses).map(([status, answer]) => [
    status,
    documentResponse(answer),
  ]);
  app.openAPIRegistry.registerPath({
    method,
    path,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    security: access.length === 0 ? [] : securityOf(access),
    request: {
      ...(params === undefined ? {} : { params }),
      ...(query === undefined ? {} : { query }),
      ...(headers === undefined ? {} : { headers }),
      ...(body === undefined
        ? {}
        : {
            body: {
              required: true,
              content:
                body === "bytes"
                  ? { "application/octet-stream": { schema: { type: "string", format: "binary" } } }
                  : { "application/json": { schema: body } },
            },
          }),
    },
    responses: {
      ...Object.fromEntries(responses),
      default: { description: "any failure", content: { "application/json": { schema: ErrorBodySchema } } },
    },
  });
}

function documentResponse({ description, body }: { description: string; body: z.ZodType | string | null }) {
  if (body === null) return { description };
  if (typeof body === "string")
    return { description, content: { [body]: { schema: { type: "string" } as const } } };
  return { description, content: { "application/json": { schema: body } } };
}

function securityOf(access: readonly Access[]): Record<string, string[]>[] {
  const scopes = access.filter((one) => one !== "executor");
  return [
    ...(scopes.length > 0 ? [{ apiKey: [] }] : []),
    ...(access.includes("executor") ? [{ executorToken: [] }] : []),
  ];
}
