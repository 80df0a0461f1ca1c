/** The OpenAPI 3.1 document, made from the definitions that serve the routes, and the page that shows it. */
import { OpenAPIHono } from "@hono/zod-openapi";
import { LIMITS } from "#core/limits.ts";
import {
  AttestationClaimsSchema,
  AttestationSchema,
  IsolationSchema,
  JwkSchema,
  TYP,
} from "#core/wire/attestations.ts";
import { ErrorBodySchema, ResourcesSchema } from "#core/wire/common.ts";
import { ExecutorSchema, HostInfoSchema, PublicKeySchema } from "#core/wire/executors.ts";
import { KeyCreatedSchema, KeySchema } from "#core/wire/keys.ts";
import { HoldSchema, LeaseSchema } from "#core/wire/leases.ts";
import {
  OutcomeSchema,
  OutputSchema,
  ResultSchema,
  StreamSchema,
  TaskSchema,
  TaskSpecSchema,
} from "#core/wire/tasks.ts";
import type { Env } from "./environment.ts";

export function documentOf(api: OpenAPIHono<Env>): object {
  const paths = api.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "DSec",
      version: "1",
      description:
        "Sandboxes for language-model agents whose results anybody can verify. Every failure is `{error: {code, message, details?, request_id}}` with a stable code.",
      license: { name: "Apache-2.0", url: "https://www.apache.org/licenses/LICENSE-2.0" },
    },
    // where the document comes from: the issuer's name need not be an address that a reader can reach
    servers: [{ url: "/" }],
    tags: TAGS.map(([name, description]) => ({ name, description })),
  });
  const { document, schemas } = referTo(namedSchemas(), paths);
  return { ...document, components: { schemas, securitySchemes: SECURITY } };
}

const SECURITY = {
  apiKey: { type: "http", scheme: "bearer", description: "An API key, `dsk_…`" },
  executorToken: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description: `A JWT (typ ${TYP.executor}, EdDSA) of at most ${LIMITS.executorTokenTtlS} s that an enrolled executor signs: iss its id, aud the gateway's issuer`,
  },
};

/** Schemas that stand under a name of their own, each after those that it is made of. */
const NAMED = {
  Error: ErrorBodySchema,
  Resources: ResourcesSchema,
  HostInfo: HostInfoSchema,
  PublicKey: PublicKeySchema,
  Executor: ExecutorSchema,
  Key: KeySchema,
  KeyCreated: KeyCreatedSchema,
  Outcome: OutcomeSchema,
  Output: OutputSchema,
  Stream: StreamSchema,
  Result: ResultSchema,
  TaskSpec: TaskSpecSchema,
  Task: TaskSchema,
  Hold: HoldSchema,
  Lease: LeaseSchema,
  Isolation: IsolationSchema,
  AttestationClaims: AttestationClaimsSchema,
  Attestation: AttestationSchema,
  Jwk: JwkSchema,
};

/**
 * Each as the library writes it out: the body of an answer in a document of their own. Its way to register a schema
 * works only for those that were made after the library was loaded, and core/ may come first.
 */
function namedSchemas(): Record<string, unknown> {
  const apart = new OpenAPIHono();
  for (const [name, schema] of Object.entries(NAMED)) {
    const content = { "application/json": { schema } };
    apart.openAPIRegistry.registerPath({
      method: "get",
      path: `/${name}`,
      responses: { 200: { description: name, content } },
    });
  }
  const { paths } = apart.getOpenAPI31Document({ openapi: "3.1.0", info: { title: "", version: "" } });
  return Object.fromEntries(
    Object.keys(NAMED).map((name) => {
      const answer = paths?.[`/${name}`]?.get?.responses?.[200];
      return [name, answer.content["application/json"].schema];
    }),
  );
}

/**
 * Puts a reference wherever a named schema is spelt out. The library refers only to schemas that it has wrapped
 * itself.
 */
function referTo(named: Record<string, unknown>, whole: object) {
  const names = new Map<string, string>();
  const refer = (node: unknown): unknown => {
    const copy = referWithin(node);
    const name = names.get(JSON.stringify(copy));
    return name === undefined ? copy : { $ref: `#/components/schemas/${name}` };
  };
  const referWithin = (node: unknown): unknown => {
    if (typeof node !== "object" || node === null) return node;
    if (Array.isArray(node)) return node.map(refer);
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, refer(value)]));
  };
  const schemas: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries(named)) {
    schemas[name] = referWithin(schema);
    names.set(JSON.stringify(schemas[name]), name);
  }
  return { document: referWithin(whole) as object, schemas };
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
