/** What is taken without node:http is what node:http would have taken, and in every other case it is asked. */
import { createServer } from "node:http";
import { duplexPair } from "node:stream";
import { buffer } from "node:stream/consumers";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readWholeRequest, WHOLE_BYTES, WholeRequest } from "#executor/channel/whole-request.ts";

const noSignal = () => new AbortController().signal;
const read = (text: string | Buffer) => readWholeRequest(Buffer.from(text), noSignal);

type Seen = {
  version: string;
  isLast: boolean;
  method: string;
  target: string;
  headers: Record<string, string>;
  body: string;
};

/** Every request that node:http finds in the bytes; null where it finds anything else in them too. */
async function seenByNode(bytes: Buffer): Promise<Seen[] | null> {
  const seen: Promise<Seen>[] = [];
  let isClean = true;
  const server = createServer({ insecureHTTPParser: false }, (request, response) => {
    const { method, url, headers, httpVersion: version } = request;
    const isLast = !response.shouldKeepAlive;
    const whole = buffer(request).then((body) => ({
      ...{ version, isLast, method: method!, target: url!, headers: headers as Record<string, string> },
      body: body.toString("latin1"),
    }));
    seen.push(whole);
    whole.then(
      () => response.end(),
      () => {
        isClean = false;
      },
    );
  });
  server.on("clientError", (_error, socket) => {
    isClean = false;
    socket.destroy();
  });
  for (const event of ["upgrade", "connect", "checkContinue", "checkExpectation"]) {
    server.on(event, (_request, other) => {
      isClean = false;
      other.destroy();
    });
  }
  const [ours, theirs] = duplexPair();
  ours.on("error", () => {});
  const ended = buffer(ours).catch(() => {});
  server.emit("connection", theirs);
  ours.end(bytes);
  await ended;
  theirs.destroy();
  const all = await Promise.allSettled(seen);
  if (!isClean || all.some(({ status }) => status === "rejected")) return null;
  return all.map((one) => (one as PromiseFulfilledResult<Seen>).value);
}

const PUT =
  'PUT /v1/memory/a%20b?ttl_ms=5 HTTP/1.1\r\nHost: dsec\r\nIf-Match:  "3" \r\nContent-Length: 7\r\n\r\n"value"';

test("a request in one piece is read as node:http reads it", async () => {
  const request = read(PUT) as WholeRequest;
  expect(request).toBeInstanceOf(WholeRequest);
  expect(request).toMatchObject({
    method: "PUT",
    path: "/v1/memory/a%20b",
    query: "ttl_ms=5",
    isLast: false,
  });
  expect(["host", "if-match", "content-length", "x"].map((name) => request.header(name))).toEqual([
    "dsec",
    '"3"',
    "7",
    null,
  ]);
  expect(Buffer.from(await request.body(7)).toString()).toBe('"value"');
  await expect(request.body(6)).rejects.toMatchObject({ code: "BODY_TOO_LARGE" });
});

const GET = "GET / HTTP/1.1\r\nhost: dsec\r\n";
test.each([
  ["nothing", "", "other"],
  ["half a head", GET, "other"],
  ["a request and the next", `${GET}\r\n${GET}\r\n`, "other"],
  ["a head that announces its body", PUT.slice(0, -7), "begun"],
  ["all but the last byte", PUT.slice(0, -1), "begun"],
  ["a body too large to hold", `${GET}content-length: ${WHOLE_BYTES}\r\n\r\n`, "other"],
  ["no host", "GET / HTTP/1.1\r\nx: y\r\n\r\n", "other"],
  ["a field twice", `${GET}Host: dsec\r\n\r\n`, "other"],
  ["chunks", `${GET}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`, "other"],
  ["an upgrade", `${GET}upgrade: websocket\r\nconnection: upgrade\r\n\r\n`, "other"],
  ["a client that waits to be asked", `${GET}expect: 100-continue\r\n\r\n`, "other"],
  ["a length with a sign", `${GET}content-length: +0\r\n\r\n`, "other"],
  ["a whole URL", "GET http://dsec/ HTTP/1.1\r\nhost: dsec\r\n\r\n", "other"],
  ["a fragment", "GET /a#b HTTP/1.1\r\nhost: dsec\r\n\r\n", "other"],
  ["HTTP/1.0", "GET / HTTP/1.0\r\nhost: dsec\r\n\r\n", "other"],
  ["a tunnel", "CONNECT dsec:1 HTTP/1.1\r\nhost: dsec\r\n\r\n", "other"],
  ["a control character in a value", `${GET}x: a\0b\r\n\r\n`, "other"],
  ["a byte above ASCII in a value", Buffer.from(`${GET}x: \xe9\r\n\r\n`, "latin1"), "other"],
  ["what else a connection may be", `${GET}connection: keep-alive, x\r\n\r\n`, "other"],
  ["a bare line feed", "GET / HTTP/1.1\nhost: dsec\r\n\r\n", "other"],
])("%s is not taken", (_what, text, expected) => {
  expect(read(text)).toBe(expected);
});

test("whatever is changed in a request, what is taken is one request, and node:http sees the same", async () => {
  const pieces = [
    ...[PUT, `${GET}\r\n`, "\r\n", "\n", "\r", " ", "\t", ":", ",", "\0", "é", "#", "\\", '"', "0", "7", "%"],
    ...[
      "chunked",
      "transfer-encoding: chunked\r\n",
      "content-length: 7\r\n",
      "connection: close\r\n",
      "te: x\r\n",
    ],
    ...[
      "Proxy-Connection: close\r\n",
      "upgrade: h2c\r\n",
      "connection: Upgrade\r\n",
      "connection: keep-alive, x\r\n",
    ],
    ...[
      "expect: 100-continue\r\n",
      "host: a\r\n",
      "x-y: z\r\n",
      " folded\r\n",
      "HTTP/1.0",
      "http://dsec/",
      "HEAD",
      "*",
    ],
  ];
  let taken = 0;
  const edit = fc.record({
    // Most of what may be said stands at the beginning or the end of a line.
    at: fc.oneof(fc.nat(PUT.length), fc.constantFrom(...edges(PUT)), fc.constantFrom(...edges(`${GET}\r\n`))),
    gone: fc.oneof(fc.constant(0), fc.nat(12)),
    piece: fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 3 }), fc.constant("")),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(PUT, `${GET}\r\n`),
      fc.array(edit, { maxLength: 3 }),
      async (from, edits) => {
        let text = from;
        for (const { at, gone, piece } of edits) text = text.slice(0, at) + piece + text.slice(at + gone);
        const bytes = Buffer.from(text, "latin1");
        const request = read(bytes);
        if (typeof request === "string") return;
        taken++;
        const body = Buffer.from(await request.body(WHOLE_BYTES)).toString("latin1");
        const target = request.query === "" ? request.path : `${request.path}?${request.query}`;
        const [seen, ...more] = (await seenByNode(bytes)) ?? [];
        expect(more).toEqual([]);
        const { method, isLast } = request;
        expect(seen).toMatchObject({ version: "1.1", method, isLast, body });
        // A first question mark with nothing behind it says nothing.
        expect(seen!.target.replace(/^([^?]*)\?$/, "$1")).toBe(target);
        for (const [name, value] of Object.entries(seen!.headers)) expect(request.header(name)).toBe(value);
      },
    ),
    { numRuns: 600 },
  );
  // The property is about something.
  expect(taken).toBeGreaterThan(60);
});

function edges(text: string): number[] {
  const ends = [...text.matchAll(/\r\n/g)].map(({ index }) => index);
  return [...ends, ...ends.map((end) => end + 2)];
}
