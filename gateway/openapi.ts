/** The OpenAPI 3.1 document, made from the definitions that serve the routes, and the page that shows it. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import { LIMITS } from "#core/limits.ts";
import { TYP } from "#core/wire/attestations.ts";
import type { Env } from "./environment.ts";

/** @param issuer the public origin of this gateway, which the page sends its requests to */
export function documentOf(api: OpenAPIHono<Env>, issuer: string): object {
  const document = api.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "DSec",
      version: "1",
      description:
        "Sandboxes for language-model agents whose results anybody can verify. Every failure is `{error: {code, message, details?, request_id}}` with a stable code.",
      license: { name: "Apache-2.0", url: "https://www.apache.org/licenses/LICENSE-2.0" },
    },
    servers: [{ url: issuer }],
    tags: TAGS.map(([name, description]) => ({ name, description })),
  });
  document.components ??= {};
  document.components.securitySchemes = {
    apiKey: { type: "http", scheme: "bearer", description: "An API key, `dsk_…`" },
    executorToken: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "JWT",
      description: `A JWT (typ ${TYP.executor}, EdDSA) of at most ${LIMITS.executorTokenTtlS} s that an enrolled executor signs: iss its id, aud the gateway's issuer`,
    },
  };
  return document;
}

const TAGS = [
  ["tasks", "Submit work and follow it"],
  ["outputs", "What finished tasks left"],
  ["artifacts", "Immutable content that tasks take as input"],
  ["attestations", "What proves a result, and the keys that verify it"],
  ["executors", "The hosts that run tasks"],
  ["leases", "How executors take and finish work"],
  ["keys", "API keys"],
  ["system", "For operators"],
] as const;

/** Its scripts and styles are swagger-ui-dist's, served beside it under /docs/assets. */
export const DOCS_PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>DSec API reference</title>
<link rel="icon" href="/docs/assets/favicon-32x32.png">
<link rel="stylesheet" href="/docs/assets/swagger-ui.css">
</head>
<body>
<main id="reference">Loading /openapi.json…</main>
<script src="/docs/assets/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

export const DOCS_SCRIPT = `SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  // The validator badge would call a server elsewhere.
  validatorUrl: null,
});
`;
