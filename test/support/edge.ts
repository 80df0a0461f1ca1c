/** What the tests in workerd stand on, made on Node before them: a PostgreSQL, secrets of one run, and the assets. */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { exportJWK, generateKeyPair } from "jose";
import type { TestProject } from "vitest/node";
import { mintKey } from "#gateway/auth.ts";
import { knownAnswers, serveHostile } from "./hostile-upstream.ts";
import { startPostgres } from "./postgres.ts";

export type EdgeFixture = {
  postgresUrl: string;
  signingKeys: string;
  secretsKey: string;
  adminKey: string;
  /** Of a server on localhost that tool calls of the tests go to. */
  upstreamPort: string;
  /** Of one that answers `/N` with the N-th of known answers, and JSON of what these are. */
  hostilePort: string;
  hostileAnswers: string;
};

declare module "vitest" {
  interface ProvidedContext {
    edge: EdgeFixture;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  execFileSync("sh", ["gateway/edge/reference-files.sh"]);
  const server = await startPostgres();
  const upstream = await startUpstream();
  const answers = knownAnswers();
  const hostile = await serveHostile(answers, null, "localhost");
  const privateJwk = async (alg: string) =>
    exportJWK((await generateKeyPair(alg, { extractable: true })).privateKey);
  project.provide("edge", {
    // Empty: the gateway brings it up to date itself.
    postgresUrl: await server.emptyDatabase(),
    signingKeys: JSON.stringify({ current: await privateJwk("EdDSA"), next: await privateJwk("ES256") }),
    secretsKey: randomBytes(32).toString("base64url"),
    adminKey: (await mintKey()).secret,
    upstreamPort: String((upstream.address() as AddressInfo).port),
    hostilePort: String(hostile.port),
    hostileAnswers: JSON.stringify(answers.map(({ what }) => what)),
  });
  return async () => {
    upstream.closeAllConnections();
    upstream.close();
    await hostile.close();
    await server.stop();
  };
}

/** Answers with what it got, coded or redirecting where the path says so. */
async function startUpstream(): Promise<Server> {
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const seen = {
      method: request.method,
      url: request.url,
      headers: request.headers,
      body: Buffer.concat(parts).toString(),
    };
    if (request.url === "/redirect") {
      response.writeHead(302, { location: "http://169.254.169.254/latest/" });
      return void response.end();
    }
    if (request.url === "/gzip") {
      response.setHeader("content-encoding", "gzip");
      return void response.end(gzipSync("g".repeat(100_000)));
    }
    if (request.url === "/raw") {
      // Written by hand: what is sent is these bytes.
      const place = Buffer.from("/发票/café").toString("latin1");
      const head = `HTTP/1.1 302 Found\r\nLocation: ${place}\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n`;
      const echo = `X-Echo: ${request.headers["x-own"]}\r\nX-Coding: ${request.headers["accept-encoding"]}\r\n`;
      return void response.socket!.end(
        `${head}${echo}Content-Length: 6\r\nConnection: close\r\n\r\nmoved\n`,
        "latin1",
      );
    }
    if (request.url === "/large") return void response.end("l".repeat(100_000));
    if (request.url === "/silent") return;
    response.setHeader("content-type", "application/json");
    response.setHeader("x-authorized", String(request.headers.authorization !== undefined));
    delete seen.headers.authorization;
    response.end(JSON.stringify(seen));
  });
  await new Promise<void>((resolve) => server.listen(0, "localhost", resolve));
  return server;
}
