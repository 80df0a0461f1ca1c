import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Signer } from "#gateway/ports.ts";
import { ISSUER, issuedAttestation, NOW_MS } from "#test/support/attestation.ts";
import { createJwksCache } from "#trace/attestation/jwks-cache.ts";
import { verifyAttestation } from "#trace/attestation/verify.ts";

// B48, over a real HTTP server; only the clock is not real, and an answer's time is over when a test says so
const COOLDOWN_MS = 30_000;
const MAX_AGE_MS = 600_000;
const OUTAGE_GRACE_MS = 3_600_000;
const TIMEOUT_MS = 50_000;

let endTime = () => {};
/** Called once with the head of an answer. */
let onHead = () => {};
beforeEach(() => {
  const start = globalThis.setTimeout;
  vi.spyOn(globalThis, "setTimeout").mockImplementation(((
    act: () => void,
    ms: number,
    ...rest: unknown[]
  ) => {
    if (ms === TIMEOUT_MS) endTime = act;
    return start(act, ms, ...rest);
  }) as typeof setTimeout);
});
afterEach(() => vi.restoreAllMocks());

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const publicKey = ({ publicJwk, kid, alg }: Signer) => ({ ...publicJwk, kid, alg, use: "sig" });
const answers = {
  keys:
    (...signers: Signer[]): RequestListener =>
    (_, response) =>
      response
        .setHeader("content-type", "application/json")
        .end(JSON.stringify({ keys: signers.map(publicKey) })),
  status:
    (status: number, body = ""): RequestListener =>
    (_, response) =>
      response.writeHead(status).end(body),
};

async function start(first: RequestListener) {
  const served = { answer: first, fetches: 0 };
  const server = createServer((request, response) => {
    served.fetches++;
    served.answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const clock = { nowMs: NOW_MS };
  const cache = createJwksCache({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/.well-known/jwks.json`,
    async fetch(url, init) {
      const response = await fetch(url, init);
      setImmediate(onHead);
      onHead = () => {};
      return response;
    },
    now: () => clock.nowMs,
    cooldownMs: COOLDOWN_MS,
    maxAgeMs: MAX_AGE_MS,
    outageGraceMs: OUTAGE_GRACE_MS,
    timeoutMs: TIMEOUT_MS,
  });
  const verify = (jwt: string) => verifyAttestation(jwt, { jwks: cache, issuer: ISSUER, now: clock.nowMs });
  return { served, clock, cache, verify };
}

async function attestationBy(alg: Signer["alg"] = "EdDSA") {
  const { signer, attestation } = await issuedAttestation({ alg });
  return { signer, jwt: attestation.jwt };
}

test("a rotated key is found by one fetch at once, and known keys cost none", async () => {
  const [first, second] = [await attestationBy(), await attestationBy("ES256")];
  const { served, verify } = await start(answers.keys(first.signer));
  await verify(first.jwt);
  await verify(first.jwt);
  expect(served.fetches).toBe(1);

  served.answer = answers.keys(second.signer, first.signer);
  await verify(second.jwt);
  await verify(first.jwt);
  expect(served.fetches).toBe(2);
});

test("a key that is rotated right after the set was fetched for its age is found at once too", async () => {
  const [first, second] = [await attestationBy(), await attestationBy()];
  const { served, clock, verify } = await start(answers.keys(first.signer));
  await verify(first.jwt);
  clock.nowMs += MAX_AGE_MS;
  await verify(first.jwt);
  served.answer = answers.keys(second.signer, first.signer);
  await verify(second.jwt);
  expect(served.fetches).toBe(3);
});

test("a thousand unknown kids in a second cost one fetch, and known keys go on meanwhile", async () => {
  const known = await attestationBy();
  const { served, clock, cache, verify } = await start(answers.keys(known.signer));
  await verify(known.jwt);
  const flood = async () => {
    const found = await Promise.all(
      Array.from({ length: 1000 }, async (_, i) => {
        clock.nowMs += 1;
        return cache.find(`random-${i}`);
      }),
    );
    expect(found.every((key) => key === null)).toBe(true);
  };
  await flood();
  await flood();
  await expect(verify((await attestationBy()).jwt)).rejects.toMatchObject({ code: "UNKNOWN_SIGNING_KEY" });
  await verify(known.jwt);
  expect(served.fetches).toBe(2);
  clock.nowMs += COOLDOWN_MS;
  await flood();
  expect(served.fetches).toBe(3);
});

test("calls that come while the keys are being fetched wait for the same answer", async () => {
  const known = await attestationBy();
  const { served, verify } = await start(answers.keys(known.signer));
  await Promise.all(Array.from({ length: 50 }, () => verify(known.jwt)));
  expect(served.fetches).toBe(1);
});

test("a withdrawn key is refused once the set is past its age", async () => {
  const [gone, left] = [await attestationBy(), await attestationBy()];
  const { served, clock, verify } = await start(answers.keys(gone.signer, left.signer));
  await verify(gone.jwt);
  served.answer = answers.keys(left.signer);
  clock.nowMs += MAX_AGE_MS - 1;
  await verify(gone.jwt);
  clock.nowMs += 1;
  await expect(verify(gone.jwt)).rejects.toMatchObject({ code: "UNKNOWN_SIGNING_KEY" });
  await verify(left.jwt);
  expect(served.fetches).toBe(2);
});

const BROKEN: [string, RequestListener, RegExp][] = [
  ["answers 500", answers.status(500, "oops"), /answered 500/],
  ["answers HTML", answers.status(200, "<!doctype html><title>login</title>"), /not valid JSON/],
  ["answers 304", answers.status(304), /answered 304/],
  ["redirects", (_, response) => response.writeHead(302, { location: "/elsewhere" }).end(), /answered 302/],
  ["answers JSON that is no key set", answers.status(200, '{"key":[]}'), /not an object with a list of keys/],
  ["answers a list with a repeated member", answers.status(200, '{"keys":[],"keys":[]}'), /repeated/],
  [
    "never stops answering",
    (_, response) => void response.end("x".repeat(300_000)),
    /more than 262144 bytes/,
  ],
  ["hangs before the answer", () => endTime(), /within 50000 ms/],
  [
    "hangs within the answer",
    (_, response) => {
      onHead = endTime;
      response.write('{"keys":[');
    },
    /within 50000 ms/,
  ],
  ["cuts the connection", (request) => void request.socket.destroy(), /JWKS http/],
];

test.each(BROKEN)(
  "while the server %s, known keys work for the grace and unknown ones are no verdict",
  async (_, broken, why) => {
    const known = await attestationBy();
    const { served, clock, verify } = await start(answers.keys(known.signer));
    await verify(known.jwt);
    served.answer = broken;
    clock.nowMs += MAX_AGE_MS;
    await verify(known.jwt);
    await verify(known.jwt);
    expect(served.fetches).toBe(2);
    await expect(verify((await attestationBy()).jwt)).rejects.toMatchObject({
      code: "GATEWAY_UNREACHABLE",
      message: expect.stringMatching(why),
    });

    clock.nowMs += OUTAGE_GRACE_MS - 1;
    await verify(known.jwt);
    clock.nowMs += COOLDOWN_MS;
    // the claims still hold; it is the keys that are too old to be believed
    await expect(verify(known.jwt)).rejects.toMatchObject({ code: "GATEWAY_UNREACHABLE" });

    served.answer = answers.keys(known.signer);
    clock.nowMs += COOLDOWN_MS;
    await verify(known.jwt);
  },
);

test("a server that never answered gives no verdict, and one try for each cool-down", async () => {
  const known = await attestationBy();
  const { served, clock, verify } = await start(answers.status(503));
  for (let i = 0; i < 20; i++) {
    await expect(verify(known.jwt)).rejects.toMatchObject({ code: "GATEWAY_UNREACHABLE" });
  }
  expect(served.fetches).toBe(1);
  clock.nowMs += COOLDOWN_MS;
  served.answer = answers.keys(known.signer);
  await verify(known.jwt);
});

test("a clock that steps back fetches anew instead of keeping old keys for ever", async () => {
  const [gone, left] = [await attestationBy(), await attestationBy()];
  const { served, clock, cache } = await start(answers.keys(gone.signer));
  expect(await cache.find(gone.signer.kid)).not.toBeNull();
  served.answer = answers.keys(left.signer);
  clock.nowMs -= 24 * 3_600_000;
  expect(await cache.find(gone.signer.kid)).toBeNull();
  expect(await cache.find(left.signer.kid)).not.toBeNull();
  expect(served.fetches).toBe(2);
});

test("nothing is fetched for a token that is refused by its header", async () => {
  const { served, verify } = await start(answers.keys());
  const header = Buffer.from('{"alg":"none","kid":"k","typ":"dsec-attestation+jwt"}').toString("base64url");
  await expect(verify(`${header}.e30.`)).rejects.toMatchObject({ code: "UNSUPPORTED_ALGORITHM" });
  expect(served.fetches).toBe(0);
});
