/**
 * A tool server that answers sandboxes alone, and knows which one calls: every request carries the gateway's word
 * that this sandbox may make exactly this call. All it needs is a stock JOSE library and the gateway's public keys.
 *
 *   GATEWAY=http://127.0.0.1:7330 node examples/upstream-verifier/server.ts
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import { createRemoteJWKSet, jwtVerify } from "jose";

/** Rejects unless `gateway` signed this very request to `origin`; resolves with the id of the sandbox that calls. */
export function callVerifier({
  gateway,
  issuer,
  origin,
}: {
  gateway: string;
  issuer: string;
  origin: string;
}) {
  const keys = createRemoteJWKSet(new URL("/.well-known/jwks.json", gateway));
  const used = new Map<string, number>();
  return async (request: Pick<IncomingMessage, "method" | "url" | "headers">, body: Uint8Array) => {
    const options = {
      issuer,
      typ: "dsec-call+jwt",
      algorithms: ["EdDSA", "ES256"],
      requiredClaims: ["jti", "exp"],
    };
    const jws = String(request.headers["dsec-call-signature"]);
    const { payload } = await jwtVerify(jws, keys, options);
    const { pathname } = new URL(request.url!, origin);
    const query = request.url!.split("?").slice(1).join("?");
    const same = payload.htm === request.method && payload.htu === origin + pathname;
    const digest = `sha-256=:${sha256(body, "base64")}:`;
    if (!same || payload.htq !== `sha256:${sha256(query, "hex")}` || payload.content_digest !== digest)
      throw new Error("signed for another request");
    for (const [jti, exp] of used) if (exp * 1000 < Date.now()) used.delete(jti);
    if (used.has(payload.jti!)) throw new Error("used before");
    used.set(payload.jti!, payload.exp!);
    return payload.sub!;
  };
}

const sha256 = (data: Uint8Array | string, encoding: "hex" | "base64") =>
  createHash("sha256").update(data).digest(encoding);

if (import.meta.main) {
  const {
    GATEWAY: gateway = "http://127.0.0.1:7330",
    PORT: port = "8080",
    HOST: host = "127.0.0.1",
  } = process.env;
  const origin = process.env.ORIGIN ?? `http://${host}:${port}`;
  const verify = callVerifier({ gateway, issuer: process.env.ISSUER ?? gateway, origin });
  createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const answer = await verify(request, Buffer.concat(parts)).then(
      (sandbox) => ({ status: 200, text: `hello, ${sandbox}\n` }),
      (error: Error) => ({ status: 401, text: `${error.message}\n` }),
    );
    response.writeHead(answer.status, { "content-type": "text/plain" }).end(answer.text);
  }).listen(Number(port), host, () => console.log(`answering sandboxes at ${origin}`));
}
