/** What operators and tools ask: is it alive, is it ready, how busy is it, what can it do. */
import { OpenAPIHono } from "@hono/zod-openapi";
import { accepts } from "hono/accepts";
import { z } from "zod";
import type { Env, Gateway } from "../environment.ts";
import { FRONT, FRONT_PAGE, frontPagePolicy } from "../front-page.ts";
import { DOCS_PAGE, DOCS_SCRIPT, documentOf } from "../openapi.ts";
import { serve } from "../openapi-route.ts";
import { json, text } from "../reply.ts";
import { signingCheck } from "../signing/key-ring.ts";

const StatusSchema = z.object({ status: z.string() });
const FrontSchema = z.object({
  name: z.string(),
  version: z.string(),
  description: z.string(),
  /** Paths on this gateway. */
  links: z.record(z.string(), z.string()),
});

export function systemRoutes(gateway: Gateway, api: OpenAPIHono<Env>): OpenAPIHono<Env> {
  const app = new OpenAPIHono<Env>();
  const { store, keys, metrics, now } = gateway;
  const signing = signingCheck(keys, now);
  const tag = "system";
  const status = (description: string) => ({ 200: { description, body: StatusSchema } });

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/",
      tag,
      summary: "What this is",
      description: "A page where `Accept` prefers text/html, as browsers' does.",
      access: [],
      responses: { 200: { description: "name, version, and where the rest is", body: FrontSchema } },
    },
    async (c) => {
      c.header("Vary", "Accept");
      const supports = ["application/json", "text/html"];
      if (accepts(c, { header: "Accept", supports, default: "application/json" }) !== "text/html")
        return json(c, FRONT);
      c.header("Content-Security-Policy", await frontPagePolicy());
      return text(c, FRONT_PAGE, "text/html; charset=utf-8");
    },
  );

  serve(
    app,
    gateway,
    { method: "get", path: "/healthz", tag, summary: "Is it alive", access: [], responses: status("it is") },
    (c) => json(c, { status: "alive" }),
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/readyz",
      tag,
      summary: "Can it serve",
      description: "503 while the database or the signing key cannot be reached.",
      access: [],
      responses: status("it can"),
    },
    async (c) => {
      await Promise.all([signing(), store.ping()]);
      return json(c, { status: "ready" });
    },
  );

  serve(
    app,
    gateway,
    {
      method: "get",
      path: "/metrics",
      tag,
      summary: "Figures for Prometheus",
      access: [],
      responses: { 200: { description: "text format 0.0.4", body: "text/plain" } },
    },
    async (c) => {
      for (const [state, count] of Object.entries(await store.countTasks())) {
        metrics.set("dsec_tasks", "Tasks in the database by state.", { state }, count);
      }
      return text(c, metrics.text(), "text/plain; version=0.0.4; charset=utf-8");
    },
  );

  let document: string | undefined;
  app.get("/openapi.json", (c) => {
    document ??= JSON.stringify(documentOf(api));
    return text(c, document, "application/json");
  });

  app.get("/docs", (c) => {
    // Everything comes from this origin: the page works offline and nothing foreign can run in it.
    c.header(
      "Content-Security-Policy",
      "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:",
    );
    return text(c, DOCS_PAGE, "text/html; charset=utf-8");
  });
  app.get("/docs/start.js", (c) => text(c, DOCS_SCRIPT, "text/javascript; charset=utf-8"));
  return app;
}
