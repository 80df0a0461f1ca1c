/** Calls whose caller wants each answer as it came: nothing is followed or undone, and everything is measured all the same. */
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  brotliCompressSync,
  createGzip,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  digest,
  header,
  openTestProxy,
  reach,
  readAnswer,
  type Sandbox,
  type TestProxy,
} from "./proxy-under-test.ts";

const TEXT = "the same words whatever they were wrapped in\n".repeat(500);
const CODED: Record<string, Buffer> = {
  gzip: gzipSync(TEXT),
  br: brotliCompressSync(TEXT),
  deflate: deflateSync(TEXT),
  zstd: Buffer.concat([TEXT.slice(0, 5_000), TEXT.slice(5_000)].map((part) => zstdCompressSync(part))),
  "gzip, br": brotliCompressSync(gzipSync(TEXT)),
};
const MIB = 1024 * 1024;

let proxy: TestProxy;
let sandbox: Sandbox;
let url: string;
let port: number;
let asked: IncomingMessage[];
let answer: (request: IncomingMessage, response: ServerResponse) => void;

beforeAll(async () => {
  proxy = await openTestProxy();
  ({ url, port } = await proxy.serve((request, response) => {
    asked.push(request);
    answer(request, response);
  }));
  sandbox = await proxy.lease(reach(port));
  asked = [];
});
afterAll(() => proxy?.close());

const verbatim = { head: { answer: "verbatim" } } as const;
const coded =
  (coding: string, body: Uint8Array, status = 200) =>
  (_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(status, {
      "content-encoding": coding,
      "content-length": body.length,
      etag: '"strong"',
    });
    response.end(body);
  };
const lastClaims = async (of = sandbox) =>
  (await of.receipts()).claims.toSorted((a, b) => a.seq - b.seq).at(-1)!;

describe("a coded body", () => {
  test.each(Object.keys(CODED))(
    "in %s comes as it was sent, and its fingerprint is of what it decodes to",
    async (coding) => {
      answer = coded(coding, CODED[coding]!);
      const got = await sandbox.call(`${url}/coded`, verbatim);
      expect(got.error).toBeUndefined();
      expect(got.body).toEqual(CODED[coding]);
      expect(header(got, "content-encoding")).toBe(coding);
      expect(header(got, "content-length")).toBe(String(CODED[coding]!.length));
      expect(header(got, "etag")).toBe('"strong"');
      expect(got.end).toMatchObject({ fingerprint: { body: digest(TEXT) }, bytes_down: TEXT.length });
      expect(await lastClaims()).toMatchObject({
        fingerprint: { body: digest(TEXT) },
        partial: false,
        error: null,
      });
    },
  );

  test("has the same fingerprint for who wants the final answer and for who wants this one", async () => {
    const json = '{"b": 1, "a": 2}';
    answer = (_request, response) => {
      response.writeHead(200, { "content-encoding": "gzip", "content-type": "application/json" });
      response.end(gzipSync(json));
    };
    const [final, own] = [await sandbox.call(`${url}/json`), await sandbox.call(`${url}/json`, verbatim)];
    expect(final.body.toString()).toBe(json);
    expect(own.end!.fingerprint).toEqual(final.end!.fingerprint);
    expect(own.end!.fingerprint!.json).toBe(digest('{"a":2,"b":1}'));
  });

  test("in raw deflate, in a coding that nobody here knows, or of a part stays as it is too", async () => {
    answer = coded("deflate", deflateRawSync(TEXT));
    expect((await sandbox.call(`${url}/raw`, verbatim)).end!.fingerprint!.body).toBe(digest(TEXT));
    for (const [coding, status] of [
      ["x-own", 200],
      ["gzip", 206],
    ] as const) {
      answer = coded(coding, CODED.gzip!.subarray(0, 50), status);
      const got = await sandbox.call(`${url}/other`, verbatim);
      expect(got.body).toEqual(CODED.gzip!.subarray(0, 50));
      expect(got.end!.fingerprint!.body).toBe(digest(CODED.gzip!.subarray(0, 50)));
      expect(header(got, "content-encoding")).toBe(coding);
    }
  });

  test("that is padded with zeros comes with them, and the answer is whole", async () => {
    const both = Buffer.concat([CODED.gzip!, Buffer.alloc(300_000)]);
    answer = coded("gzip", both);
    const got = await sandbox.call(`${url}/trailing`, verbatim);
    expect(got.error).toBeUndefined();
    expect(got.body.equals(both)).toBe(true);
    expect(got.end!.fingerprint!.body).toBe(digest(TEXT));
  });

  test("that is cut leaves a partial receipt with the fingerprint of what had come", async () => {
    answer = coded("gzip", CODED.gzip!.subarray(0, CODED.gzip!.length - 20));
    const got = await sandbox.call(`${url}/cut`, verbatim);
    expect(got.error).toMatchObject({ code: "RESPONSE_UNDECODABLE", partial: true });
    expect(await lastClaims()).toMatchObject({ status: 200, error: "RESPONSE_UNDECODABLE", partial: true });
  });

  test("whose upstream breaks off leaves the fingerprint of all that had come", async () => {
    answer = (_request, response) => {
      response.writeHead(200, { "content-encoding": "gzip" });
      const out = createGzip();
      out.on("data", (piece) => response.write(piece));
      out.write(TEXT);
      out.flush(() => response.write("", () => setImmediate(() => response.destroy())));
    };
    const got = await sandbox.call(`${url}/broken`, verbatim);
    expect(got.error).toMatchObject({ code: "UPSTREAM_FAILED", partial: true });
    expect(await lastClaims()).toMatchObject({ fingerprint: { body: digest(TEXT) }, partial: true });
  });

  test("that is no such coding fails before its head", async () => {
    answer = coded("gzip", Buffer.from("this is plain text"));
    const got = await sandbox.call(`${url}/mislabelled`, verbatim);
    expect(got).toMatchObject({ head: undefined, error: { code: "RESPONSE_UNDECODABLE" } });
    expect(got.body).toHaveLength(0);
  });

  test("is handed on as it comes: each event of a compressed stream before the next is sent", async () => {
    const arrived: (() => void)[] = [];
    answer = async (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream", "content-encoding": "gzip" });
      const out = createGzip();
      out.pipe(response);
      for (let event = 0; event < 3; event++) {
        out.write(`data: ${event}\n\n`);
        await new Promise<void>((resolve) => {
          arrived.push(resolve);
          out.flush();
        });
      }
      out.end();
    };
    const response = await sandbox.send(sandbox.head(`${url}/events`, verbatim));
    let pieces = 0;
    const got = await readAnswer(response, ({ dataAtMs }) => {
      if (dataAtMs.length > pieces && arrived.length > 0) {
        pieces = dataAtMs.length;
        arrived.shift()!();
      }
      return false;
    });
    expect(got.error).toBeUndefined();
    expect(got.end!.fingerprint!.body).toBe(digest("data: 0\n\ndata: 1\n\ndata: 2\n\n"));
  });
});

describe("bounds", () => {
  test.each(["gzip", "br", "zstd", "gzip, gzip"])(
    "a bomb in %s ends the call, whatever its coded size",
    async (coding) => {
      const zeros = Buffer.alloc(64 * MIB);
      const bomb = {
        gzip: () => gzipSync(zeros),
        br: () => brotliCompressSync(zeros, { params: { 1: 1 } }),
        zstd: () => zstdCompressSync(zeros),
        "gzip, gzip": () => gzipSync(gzipSync(zeros)),
      }[coding]!();
      answer = coded(coding, bomb);
      const bounded = await proxy.lease(reach(port, { response_bytes_max: MIB }));
      const got = await bounded.call(`${url}/bomb`, verbatim);
      expect(got.error).toMatchObject({ code: "RESPONSE_TOO_LARGE", partial: true });
      expect(got.end).toBeUndefined();
      expect((await lastClaims(bounded)).bytes_down).toBeLessThanOrEqual(MIB);
    },
  );

  test("a body that goes on for ever and decodes to nothing is bounded by what was sent of it", async () => {
    // A gzip member of nothing; thousands of them are nothing still.
    const nothing = Buffer.concat(Array.from({ length: 10_000 }, () => gzipSync("")));
    answer = (request, response) => {
      response.writeHead(200, { "content-encoding": "gzip" });
      const more = () => {
        while (response.write(nothing));
      };
      response.on("drain", more);
      request.socket.once("close", () => response.destroy());
      more();
    };
    const bounded = await proxy.lease(reach(port, { response_bytes_max: 4 * MIB }));
    const got = await bounded.call(`${url}/nothing`, verbatim);
    expect(got.error).toMatchObject({ code: "RESPONSE_TOO_LARGE" });
    expect(got.body.length).toBeLessThanOrEqual(4 * MIB);
  });

  test("a budget counts what was handed on or what it decodes to, whichever is more", async () => {
    answer = coded("gzip", CODED.gzip!);
    const poor = await proxy.lease(reach(port, { budgets: { bytes_down: TEXT.length - 1 } }));
    expect((await poor.call(`${url}/coded`, verbatim)).error).toMatchObject({ code: "BUDGET_EXHAUSTED" });
    const tiny = gzipSync("x");
    answer = coded("gzip", tiny);
    expect((await sandbox.call(`${url}/tiny`, verbatim)).end).toMatchObject({ bytes_down: tiny.length });
  });

  test.each(["final", "verbatim"] as const)(
    "a length that is known to be too large ends a %s call before its head",
    async (kind) => {
      const bounded = await proxy.lease(reach(port, { response_bytes_max: 1_000 }));
      const closed = Promise.withResolvers<void>();
      answer = (request, response) => {
        response.writeHead(200, { "content-length": 5_000_000_000 });
        response.flushHeaders();
        request.socket.once("close", () => closed.resolve());
      };
      const got = await bounded.call(`${url}/large`, { head: { answer: kind } });
      expect(got).toMatchObject({ head: undefined, error: { code: "RESPONSE_TOO_LARGE" } });
      for (const part of ["127.0.0.1", "5000000000", "1000", "response_bytes_max"])
        expect(got.error!.message).toContain(part);
      await closed.promise; // and nobody reads on
      expect(await lastClaims(bounded)).toMatchObject({ error: "RESPONSE_TOO_LARGE", bytes_down: 0 });
    },
  );

  test("a length that no body follows is no reason to refuse: HEAD, 304", async () => {
    const bounded = await proxy.lease(reach(port, { response_bytes_max: 10 }));
    answer = (request, response) =>
      void response.writeHead(request.method === "HEAD" ? 200 : 304, { "content-length": 5_000 }).end();
    for (const method of ["HEAD", "GET"]) {
      const got = await bounded.call(`${url}/head`, { method, ...verbatim });
      expect(got.error).toBeUndefined();
      expect(header(got, "content-length")).toBe("5000");
    }
  });
});

describe("redirects and requests", () => {
  test("a redirect is the answer, with its body, and nothing else is asked", async () => {
    for (const status of [301, 302, 303, 307, 308]) {
      asked = [];
      answer = (_request, response) =>
        response.writeHead(status, { location: "http://denied.test/", "set-cookie": "a=1" }).end("moved");
      const got = await sandbox.call(`${url}/go`, { method: "POST", body: "words", ...verbatim });
      expect(got.head).toMatchObject({ status, url: `${url}/go`, redirects: [] });
      expect(got.body.toString()).toBe("moved");
      expect(header(got, "location")).toBe("http://denied.test/");
      expect(asked).toHaveLength(1);
    }
  });

  test("Accept-Encoding is the caller's, in its own words, or is not there", async () => {
    answer = (_request, response) => response.end();
    asked = [];
    await sandbox.call(`${url}/`, { headers: [["aCCept-encoding", "gzip;q=0.3, *;q=0"]], ...verbatim });
    await sandbox.call(`${url}/`, verbatim);
    await sandbox.call(`${url}/`, { headers: [["Accept-Encoding", "own"]] });
    expect(asked.map(({ headers }) => headers["accept-encoding"])).toEqual([
      "gzip;q=0.3, *;q=0",
      undefined,
      "gzip, br, zstd",
    ]);
  });
});

describe("what the policy guards", () => {
  test("an answer that repeats a secret is decoded and cut, in whatever coding it comes", async () => {
    await proxy.client.ok("POST", "/v1/secrets", {
      name: "KEY",
      value: "Bearer top-secret-1",
      hosts: ["127.0.0.1"],
    });
    const keyed = await proxy.lease(
      reach(port, {
        secrets: [{ host: "127.0.0.1", header: "Authorization", secret: "KEY", plain_http: true }],
      }),
    );
    answer = (request, response) =>
      coded("gzip", gzipSync(`you said ${request.headers.authorization}`))(request, response);
    const got = await keyed.call(`${url}/echo`, { headers: [["Accept-Encoding", "gzip"]], ...verbatim });
    expect(got.error).toMatchObject({ code: "SECRET_REFLECTED" });
    expect(got.body.toString()).not.toContain("top-secret-1");
    answer = coded("gzip", CODED.gzip!);
    asked = [];
    const harmless = await keyed.call(`${url}/`, {
      headers: [["Accept-Encoding", "gzip;q=0.9"]],
      ...verbatim,
    });
    expect(harmless.body.toString()).toBe(TEXT);
    expect(header(harmless, "content-encoding")).toBeUndefined();
    expect(asked[0]!.headers["accept-encoding"]).toBe("gzip;q=0.9");
  });

  test("a pinned answer is handed on as it came where its fingerprint holds, and not at all where it does not", async () => {
    answer = coded("gzip", CODED.gzip!);
    const pinned = (pin: string) => proxy.lease(reach(port, { fingerprints: [{ host: "127.0.0.1", pin }] }));
    const got = await (await pinned(digest(TEXT))).call(`${url}/`, verbatim);
    expect(got.error).toBeUndefined();
    expect(got.body).toEqual(CODED.gzip);
    const refused = await (await pinned(digest("other"))).call(`${url}/`, verbatim);
    expect(refused).toMatchObject({ head: undefined, error: { code: "FINGERPRINT_MISMATCH" } });
    expect(refused.body).toHaveLength(0);
  });
});
