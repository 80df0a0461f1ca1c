import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { connect } from "node:tls";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { CLIENT_HELLO_BYTES, readFirstBytes } from "#executor/egress/client-hello.ts";

/** What a real client sends first. */
async function clientHello(options: { servername?: string }): Promise<Buffer> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", ...options });
  client.on("error", () => {});
  const [socket] = await once(server, "connection");
  const [bytes] = await once(socket, "data");
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

let named: Buffer;
let unnamed: Buffer;
beforeAll(async () => {
  named = await clientHello({ servername: "Some.Host.test" });
  unnamed = await clientHello({});
});

/** The same handshake message in records of `size` bytes. */
function inRecords(hello: Buffer, size: number): Buffer {
  const message = hello.subarray(5);
  const records: Buffer[] = [];
  for (let at = 0; at < message.length; at += size) {
    const part = message.subarray(at, at + size);
    records.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(records);
}

/** A ClientHello around these extensions. */
function helloWith(...extensions: Buffer[]): Buffer {
  const vector = (size: 1 | 2, content: Buffer) => {
    const length = Buffer.alloc(size);
    length.writeUIntBE(content.length, 0, size);
    return Buffer.concat([length, content]);
  };
  const body = Buffer.concat([
    Buffer.alloc(34, 3),
    vector(1, Buffer.alloc(0)),
    vector(2, Buffer.from([0x13, 1])),
    vector(1, Buffer.from([0])),
    vector(2, Buffer.concat(extensions)),
  ]);
  const message = Buffer.concat([Buffer.from([1, 0, body.length >> 8, body.length & 255]), body]);
  return inRecords(Buffer.concat([Buffer.alloc(5), message]), 16_384);
}

function serverName(...names: [type: number, name: string][]): Buffer {
  const list = Buffer.concat(
    names.map(([type, name]) => Buffer.concat([Buffer.from([type, 0, name.length]), Buffer.from(name)])),
  );
  return Buffer.concat([Buffer.from([0, 0, 0, list.length + 2, 0, list.length]), list]);
}

describe("the first bytes of a tunnel", () => {
  test("name the server as the client wrote it, or none", () => {
    expect(readFirstBytes(named)).toEqual({ kind: "client_hello", serverName: "Some.Host.test" });
    expect(readFirstBytes(unnamed)).toEqual({ kind: "client_hello", serverName: null });
  });

  test("are waited for, however they are cut, and read the same in any number of records", () => {
    for (let length = 0; length < named.length; length++) {
      expect(readFirstBytes(named.subarray(0, length)).kind).toBe("incomplete");
    }
    for (const size of [1, 2, 3, 5, 64, 500]) {
      expect(readFirstBytes(inRecords(named, size))).toEqual({
        kind: "client_hello",
        serverName: "Some.Host.test",
      });
    }
  });

  test("that follow the ClientHello change nothing", () => {
    const more = Buffer.concat([named, Buffer.alloc(50_000, 255)]);
    expect(readFirstBytes(more)).toEqual({ kind: "client_hello", serverName: "Some.Host.test" });
  });

  test("that are no TLS are known by the first of them", () => {
    for (const text of ["G", "SSH-2.0-", "\0", "\x80\x2e\x01"]) {
      expect(readFirstBytes(Buffer.from(text, "latin1"))).toEqual({ kind: "not_tls" });
    }
  });

  for (const [what, bytes] of [
    ["two server names", helloWith(serverName([0, "a.test"], [0, "b.test"]))],
    ["server_name twice", helloWith(serverName([0, "a.test"]), serverName([0, "b.test"]))],
    ["a name of another type", helloWith(serverName([1, "a.test"]))],
    ["a name that is cut off", helloWith(Buffer.from([0, 0, 0, 5, 0, 3, 0, 0, 9]))],
    ["a ServerHello", Buffer.from([22, 3, 3, 0, 4, 2, 0, 0, 0])],
    ["an empty record", Buffer.from([22, 3, 3, 0, 0])],
    ["a record longer than 2^14", Buffer.from([22, 3, 3, 0x40, 1])],
    ["a record of another protocol in between", Buffer.from([22, 3, 1, 0, 2, 1, 0, 23, 3, 3, 0, 1, 0])],
    ["a ClientHello of 16 MiB", Buffer.from([22, 3, 1, 0, 4, 1, 255, 255, 255])],
    ["records without end", inRecords(Buffer.alloc(CLIENT_HELLO_BYTES + 10, 1), 1).subarray(0, 100)],
  ] as const) {
    test(`with ${what} are malformed`, () => {
      expect(readFirstBytes(bytes).kind).toBe("malformed");
    });
  }

  test("never throw, and a longer prefix never changes a verdict", () => {
    const mutated = fc
      .tuple(fc.nat({ max: named.length - 1 }), fc.nat({ max: 255 }), fc.nat({ max: named.length }))
      .map(([at, value, length]) => {
        const bytes = Buffer.from(named);
        bytes[at] = value;
        return { bytes, length };
      });
    fc.assert(
      fc.property(mutated, ({ bytes, length }) => {
        const early = readFirstBytes(bytes.subarray(0, length));
        if (early.kind !== "incomplete") expect(readFirstBytes(bytes)).toEqual(early);
      }),
      { numRuns: 2_000, verbose: 1 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => void readFirstBytes(Buffer.from(bytes))),
    );
  });
});
