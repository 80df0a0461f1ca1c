/** `dsec verify` of what a gateway holds, which need not be an honest one, nor the user's own. */
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { newId } from "#core/ids.ts";
import { sha256 } from "#core/json.ts";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import {
  type Client,
  type ExecutorClient,
  openTestGateway,
  type TestGateway,
} from "../gateway/gateway-under-test.ts";
import { dsec } from "./dsec.ts";

let folder: string;
let gateway: TestGateway;
let server: RunningGateway;
let client: Client;
let executor: ExecutorClient;
/** The gateway's keys, from itself. */
let jwks: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "dsec-verify-task-"));
  gateway = await openTestGateway();
  server = await startGateway({ ports: gateway.ports, host: "127.0.0.1", port: 0 });
  client = await gateway.client("tasks");
  executor = await gateway.executor();
  jwks = join(folder, "keys.json");
  writeFileSync(jwks, await (await fetch(`${server.url}/.well-known/jwks.json`)).text());
});
afterAll(async () => {
  await server.close();
  await gateway.close();
  rmSync(folder, { recursive: true });
});

const fronts: Server[] = [];
afterEach(() => {
  for (const front of fronts.splice(0)) front.close().closeAllConnections();
});

/** A task that left `output.json` with this content. */
function finished(content: string): Promise<string> {
  return finishedWith({ "/work/output.json": content });
}

async function finishedWith(files: Record<string, string>): Promise<string> {
  const { id } = await client.submit({ outputs: ["*.json"] });
  const [lease] = await executor.acquire();
  await executor.start(lease!);
  await executor.finish(lease!, { files });
  return id;
}

/** Something before the gateway that says otherwise what `change` makes of an answer, and keeps the keys it is shown. */
async function hostileFront(change: (path: string, body: string) => string = (_, body) => body) {
  const shown: string[] = [];
  const front = createServer(async (request, response) => {
    const { authorization = "" } = request.headers;
    if (authorization !== "") shown.push(authorization);
    const answer = await fetch(server.url + request.url, { headers: { authorization } });
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
    response.end(change(request.url!, await answer.text()));
  });
  fronts.push(front);
  await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(front.address() as AddressInfo).port}`, shown };
}

/** Away from whatever data folder is served where the tests run. */
const run = (words: string[], url = server.url) =>
  dsec(words, {
    cwd: folder,
    env: { DSEC_GATEWAY: url, DSEC_API_KEY: client.secret, DSEC_DATA: join(folder, "none") },
  });
const verified = async (words: string[], url?: string) => {
  const { code, stdout, stderr } = await run(["verify", ...words, "--json"], url);
  const results = JSON.parse(stdout.toString());
  return { code, stderr, results, error: results.error as { code: string; message: string } | undefined };
};

test("a task verifies by its id, with its outputs", async () => {
  const id = await finished('{"score":1}');
  const { code, results } = await verified([id]);
  expect(results).toMatchObject([
    { state: "verified", files: ["/work/output.json"], keys: { came_along: false } },
  ]);
  expect(code).toBe(0);
});

test("a folder is what is verified, though it is named like a task of the gateway", async () => {
  const id = await finished('{"score":2}');
  expect((await run(["task", "save", id, id])).code).toBe(0);
  expect((await verified([id])).results).toMatchObject([{ state: "verified", target: id }]);
  appendFileSync(join(folder, id, "output.json"), "changed");
  for (const target of [id, `./${id}`]) {
    const { code, results } = await verified([target]);
    expect(results).toMatchObject([{ state: "refused", target, code: "DIGEST_MISMATCH" }]);
    expect(code).toBe(1);
  }
  expect((await verified([`${id}/attestation.jwt`])).code).toBe(0);
  const absent = await verified([`${id}/none.jwt`]);
  expect(absent.error).toMatchObject({ code: "NOT_FOUND", message: expect.stringContaining("no such file") });
});

test("a URL is sent the key only where it is of the gateway that is named", async () => {
  const id = await finished('{"score":3}');
  const stranger = await hostileFront();
  const url = `${stranger.url}/v1/tasks/${id}`;
  const refused = await verified([url]);
  expect(refused.error).toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining(`--gateway ${stranger.url}`),
  });
  expect(refused.code).toBe(1);
  expect(stranger.shown).toEqual([]);
  const named = await verified([url, "--gateway", stranger.url]);
  expect(named.results).toMatchObject([{ state: "verified", keys: { came_along: true } }]);
  const kept = await verified([`${server.url}/v1/tasks/${id}`, "--jwks", jwks]);
  expect(kept.results).toMatchObject([{ state: "verified", keys: { came_along: false } }]);
  const long = await verified([`${server.url}/v1/tasks/${id}?${"x".repeat(500)}`]);
  expect(long.results).toMatchObject([{ state: "verified", keys: { came_along: true } }]);
});

test("a genuine attestation of another task is not one of the task that was asked for", async () => {
  const [asked, other] = [await finished('{"score":4}'), await finished('{"score":5}')];
  const listed = await (await client.send("GET", `/v1/tasks/${other}/attestations`)).json();
  const task = (await (await client.send("GET", `/v1/tasks/${other}`)).json()) as { result: unknown };
  const lying = await hostileFront((path, body) => {
    if (path.endsWith("/attestations")) return JSON.stringify(listed);
    if (path.endsWith(asked))
      return JSON.stringify({ ...task, id: asked, result: { ...(task.result as object), outputs: [] } });
    return body;
  });
  const { code, results } = await verified([asked, "--jwks", jwks], lying.url);
  expect(results).toMatchObject([
    { state: "refused", code: "ATTESTATION_INVALID", message: expect.stringContaining(other) },
  ]);
  expect(code).toBe(1);

  const renamed = await hostileFront((path, body) =>
    path.endsWith("/attestations")
      ? body.replace(/"id":"att_[0-9a-z]+"/, `"id":"${newId("attestation")}"`)
      : body,
  );
  expect((await verified([asked, "--jwks", jwks], renamed.url)).results[0]).toMatchObject({
    state: "refused",
    code: "ATTESTATION_INVALID",
  });
});

test("a result that no attestation is named for is refused, for its outputs would be compared with none", async () => {
  const id = await finished('{"score":6}');
  const front = await hostileFront((path, body) =>
    path.endsWith(id) ? JSON.stringify({ ...JSON.parse(body), attestation_id: null }) : body,
  );
  const { code, results } = await verified([id, "--jwks", jwks], front.url);
  expect(results).toMatchObject([
    { state: "verified" },
    { state: "refused", target: id, code: "ATTESTATION_NOT_FOUND" },
  ]);
  expect(code).toBe(1);
});

test("each output is judged, though those before it were changed or are gone", async () => {
  const id = await finishedWith({ "/work/a.json": "[1]", "/work/b.json": "[2]", "/work/c.json": "[3]" });
  const front = await hostileFront((path, body) => (path.includes("a.json") ? "[9]" : body));
  const { blobs } = gateway.ports;
  const { get } = blobs;
  const gone = await sha256("[2]");
  blobs.get = async (digest) => (digest === gone ? null : get(digest));
  const { code, results } = await verified([id, "--jwks", jwks], front.url);
  expect(results).toMatchObject([
    {
      ...{ state: "refused", target: expect.stringContaining(id), code: "DIGEST_MISMATCH" },
      message: expect.stringMatching(/a\.json.*b\.json/),
      judged: [
        { path: "/work/a.json", state: "refused", code: "DIGEST_MISMATCH" },
        { path: "/work/b.json", state: "refused", code: "OUTPUT_NOT_FOUND" },
        { path: "/work/c.json", state: "as_attested" },
      ],
    },
  ]);
  expect(code).toBe(1);
});
