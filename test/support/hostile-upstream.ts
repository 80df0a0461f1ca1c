/** Upstreams on 127.0.0.1, plain and TLS, that answer `/N` with the N-th of a list of byte sequences, good or not. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { brotliCompressSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { Random } from "#test/trace/events/random-events.ts";

/** `end` and `reset` say how the connection ends after the bytes; `stay` leaves it open, for whoever comes next. */
export type HostileAnswer = { what: string; bytes: Buffer; closing: "end" | "reset" | "stay" };

export type HostileUpstream = { port: number; close(): Promise<void> };

/** @param tls in PEM; plain TCP without it */
export async function serveHostile(
  answers: readonly HostileAnswer[],
  tls: { key: string; cert: string } | null,
  host = "127.0.0.1",
): Promise<HostileUpstream> {
  const sockets = new Set<Socket>();
  const serve = (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    let head = "";
    socket.on("data", (piece: Buffer) => {
      head += piece.toString("latin1");
      if (!head.includes("\r\n\r\n")) return;
      const number = Number(/^[A-Z]+ (?:https?:\/\/[^/]*)?\/(\d+)/.exec(head)?.[1]);
      head = "";
      const { bytes, closing } = answers[number] ?? NOT_FOUND;
      socket.write(bytes, () => {
        if (closing === "end") socket.end();
        if (closing === "reset") tls === null ? socket.resetAndDestroy() : socket.destroy();
      });
    });
  };
  const server: Server = tls === null ? createServer(serve) : createTlsServer(tls, serve);
  server.listen(0, host);
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** What is known to have broken somebody once. */
export function knownAnswers(): HostileAnswer[] {
  const answers: HostileAnswer[] = [];
  const add = (what: string, bytes: string | Buffer, closing: HostileAnswer["closing"] = "end") =>
    answers.push({ what, bytes: typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes, closing });
  const ok = (...fields: string[]) =>
    `HTTP/1.1 200 OK\r\n${fields.map((field) => `${field}\r\n`).join("")}\r\n`;
  const sized = ok("Content-Length: 2");

  for (const status of STATUSES) {
    add(`status ${status}`, `HTTP/1.1 ${status} Words\r\nContent-Length: 2\r\n\r\nok`);
  }
  add("no reason", "HTTP/1.1 999\r\nContent-Length: 2\r\n\r\nok");
  add("a reason that is not ASCII", "HTTP/1.1 600 Sch\xf6n\r\nContent-Length: 2\r\n\r\nok");
  add("999 without a length", "HTTP/1.1 999 \r\n\r\nuntil the end");
  for (const count of [300, 3_000]) {
    const fields = Array.from({ length: count }, (_, i) => `X-${i}: v`);
    add(`${count} header fields`, `${ok(...fields, "Content-Length: 2")}ok`);
  }
  add("a header of 100 KiB", `${ok(`X-Long: ${"x".repeat(100_000)}`, "Content-Length: 2")}ok`);

  const locations = {
    "15 KiB": `/1${"x".repeat(15_000)}`,
    "40 KiB": `/1?${"x".repeat(40_000)}`,
    "not ASCII": "/1?\xf6\xff",
    UTF8: Buffer.from("/1/ünï→").toString("latin1"),
    "to itself": "/1",
    empty: "",
    "no URL": "http://[",
    "another scheme": "javascript:alert(1)",
    "a name that is not allowed": "http://elsewhere.test/",
    credentials: "http://a:b@upstream.test/",
    backslashes: "\\\\elsewhere.test\\",
    "two of them": "/1\r\nLocation: /2",
  };
  for (const [what, location] of Object.entries(locations)) {
    for (const status of [302, 308]) {
      add(
        `${status}, Location: ${what}`,
        `HTTP/1.1 ${status} Go\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`,
      );
    }
  }

  for (const length of [
    "2\r\nContent-Length: 2",
    "2\r\nContent-Length: 3",
    "2, 2",
    "+2",
    "-2",
    "0x2",
    "",
    "2 2",
    "9".repeat(30),
  ]) {
    add(`Content-Length ${length.replace("\r\n", " ")}`, `${ok(`Content-Length: ${length}`)}ok`);
  }
  add("more bytes than its length", `${sized}ok and more`);
  add("fewer bytes than its length", `${ok("Content-Length: 20")}ok`);
  add("another answer behind its own, for whoever comes next", `${sized}ok${sized}no`, "stay");
  add("a length and chunks", `${ok("Content-Length: 2", "Transfer-Encoding: chunked")}2\r\nok\r\n0\r\n\r\n`);

  for (const coding of [
    "gzip",
    "br",
    "zstd",
    "deflate",
    "gzip, gzip",
    "x-unknown",
    "gzip, gzip, gzip, gzip",
  ]) {
    add(`${coding} with length 0`, ok(`Content-Encoding: ${coding}`, "Content-Length: 0"));
    add(
      `${coding} in no chunks`,
      `${ok(`Content-Encoding: ${coding}`, "Transfer-Encoding: chunked")}0\r\n\r\n`,
    );
    add(`${coding} that it is not`, `${ok(`Content-Encoding: ${coding}`, "Content-Length: 2")}ok`);
    add(`204 with ${coding}`, `HTTP/1.1 204 No\r\nContent-Encoding: ${coding}\r\n\r\n`);
  }
  for (const [coding, bytes] of CODED) {
    const head = (length: number) =>
      Buffer.from(ok(`Content-Encoding: ${coding}`, `Content-Length: ${length}`));
    add(coding, Buffer.concat([head(bytes.length), bytes]));
    add(`${coding}, cut`, Buffer.concat([head(20), bytes.subarray(0, 20)]));
    add(`${coding} and more`, Buffer.concat([head(bytes.length + 4), bytes, Buffer.from("more")]));
    add(
      `999 with ${coding}`,
      Buffer.concat([Buffer.from(head(bytes.length).toString().replace("200", "999")), bytes]),
    );
  }

  add("LF for its line ends", sized.replaceAll("\r\n", "\n").concat("ok"));
  add("CR for its line ends", sized.replaceAll("\r\n", "\r").concat("ok"));
  add("LF in its chunks", `${ok("Transfer-Encoding: chunked")}2\nok\n0\n\n`);
  add(
    "trailers",
    `${ok("Trailer: X-T", "Transfer-Encoding: chunked")}2\r\nok\r\n0\r\nX-T: 1\r\nContent-Length: 9\r\n\r\n`,
  );
  add("a trailer that is none", `${ok("Transfer-Encoding: chunked")}2\r\nok\r\n0\r\nno trailer\r\n\r\n`);
  add(
    "999 with trailers",
    `HTTP/1.1 999 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: \xff\r\n\r\n`,
  );
  add("chunk extensions", `${ok("Transfer-Encoding: chunked")}2;a="b"\r\nok\r\n0;c\r\n\r\n`);
  add("a chunk size that is none", `${ok("Transfer-Encoding: chunked")}zz\r\nok\r\n0\r\n\r\n`);
  add("a chunk size without bound", `${ok("Transfer-Encoding: chunked")}${"f".repeat(20)}\r\nok`);
  add("no last chunk", `${ok("Transfer-Encoding: chunked")}2\r\nok\r\n`);
  for (const coding of ["gzip, chunked", "chunked, chunked", "identity", "xchunked"])
    add(`Transfer-Encoding: ${coding}`, `${ok(`Transfer-Encoding: ${coding}`)}2\r\nok\r\n0\r\n\r\n`);

  add("HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nuntil the end");
  add("HTTP/0.9", "nothing but text");
  add("HTTP/2.0", sized.replace("1.1", "2.0").concat("ok"));
  add("Shoutcast", sized.replace("HTTP/1.1", "ICY").concat("ok"));
  add("a status line alone", "HTTP/1.1 200 OK\r\n");
  add("nothing", "");
  add("a reset", "", "reset");
  add("a reset within the body", `${ok("Content-Length: 20")}ok`, "reset");
  add("a folded field", `${ok("X-A: b\r\n c", "Content-Length: 2")}ok`);
  add("a space before the colon", `${ok("X-A : b", "Content-Length: 2")}ok`);
  add("a field without a colon", `${ok("nothing", "Content-Length: 2")}ok`);
  add("a field without a name", `${ok(": b", "Content-Length: 2")}ok`);
  add("a name that is no token", `${ok("X(A): b", "Content-Length: 2")}ok`);
  for (const byte of ["\0", "\x01", "\x7f", "\x80", "\xff", "\r"])
    add(`a value with byte ${byte.charCodeAt(0)}`, `${ok(`X-A: ${byte}b`, "Content-Length: 2")}ok`);
  add(
    "Connection names what frames",
    `${ok("Connection: content-length, content-type", "Content-Length: 2")}ok`,
  );
  add("304 with a body", "HTTP/1.1 304 Same\r\nContent-Length: 2\r\n\r\nok");
  add("204 with a body", "HTTP/1.1 204 None\r\nContent-Length: 2\r\n\r\nok");
  add("many interim answers", "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n".repeat(50).concat(sized, "ok"));
  add("100 and then 999", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 999 No\r\nContent-Length: 2\r\n\r\nok");
  for (const json of ["{", '{"a":1,"a":2}', `${"[".repeat(5_000)}`, '"\xff"', "1e999", '{"a":"\\ud800"}'])
    add(
      `JSON ${json.slice(0, 20)}`,
      `${ok("Content-Type: application/json", `Content-Length: ${json.length}`)}${json}`,
    );
  return answers;
}

/** Answers of random parts, most of which are good. */
export function randomAnswer(random: Random): HostileAnswer {
  const often = <T>(good: T, odd: () => T) => (random.below(4) > 0 ? good : odd());
  const end = often("\r\n", () => random.pick(["\n", "\r", "\n\r"]));
  const status = often(String(100 + random.below(900)), () => random.pick(STATUSES));
  const version = often("HTTP/1.1", () => random.pick(["HTTP/1.0", "HTTP/1.2", "http/1.1", "HTTP/11"]));
  const word = (length: number) => Buffer.from(random.bytes(random.below(length))).toString("latin1");
  const plainWord = () => random.below(2 ** 31).toString(36);
  const fields = Array.from({ length: random.below(random.pick([4, 40, 400])) }, () => {
    const name = often(`X-${plainWord()}`, () => random.pick([...FIELDS, word(8)]));
    return `${name}${often(":", () => random.pick([" :", "", "::"]))} ${often(plainWord(), () => word(40))}`;
  });
  const body = Buffer.from(random.bytes(random.below(random.pick([1, 100, 100_000]))));
  const coding = random.pick([null, null, "gzip", "br", "zstd", "deflate"]);
  if (coding !== null) fields.push(`Content-Encoding: ${coding}`);
  const coded = coding === null || random.below(3) === 0 ? body : (CODERS[coding] ?? gzipSync)(body);
  const framing = random.pick(["length", "chunks", "end"] as const);
  if (framing === "length")
    fields.push(`Content-Length: ${often(coded.length, () => random.below(200_000))}`);
  if (framing === "chunks") fields.push("Transfer-Encoding: chunked");
  const sent =
    framing === "chunks"
      ? Buffer.concat([
          ...(coded.length === 0
            ? []
            : [Buffer.from(`${coded.length.toString(16)}${end}`), coded, Buffer.from(end)]),
          Buffer.from(`0${end}${often("", () => `X-T: ${word(9)}${end}`)}${end}`, "latin1"),
        ])
      : coded;
  const head = [`${version} ${status} ${often("Words", () => word(20))}`, ...fields].map(
    (line) => line + end,
  );
  const whole = Buffer.concat([Buffer.from(`${head.join("")}${end}`, "latin1"), sent]);
  const cut = often(whole.length, () => random.below(whole.length));
  const closing = random.below(4) > 0 ? "end" : "reset";
  return { what: `random ${status} ${framing} ${coding}`, bytes: whole.subarray(0, cut), closing };
}

const STATUSES = [
  ...[
    "100",
    "101",
    "102",
    "103",
    "199",
    "200",
    "204",
    "205",
    "206",
    "299",
    "304",
    "305",
    "399",
    "401",
    "407",
  ],
  ...["417", "421", "426", "451", "499", "500", "511", "599", "600", "666", "700", "998", "999"],
  ...["000", "099", "1000", "20", "2e2", "-99", "OK"],
];
const FIELDS = [
  "Location",
  "Content-Length",
  "Connection",
  "Upgrade",
  "Trailer",
  "Set-Cookie",
  "Content-Type",
  "Date",
];
const WORDS = "the same words whatever they were wrapped in\n".repeat(50);
const CODERS: Record<string, (bytes: Buffer) => Buffer> = {
  gzip: (bytes) => gzipSync(bytes),
  br: (bytes) => brotliCompressSync(bytes),
  zstd: (bytes) => zstdCompressSync(bytes),
};
const CODED = Object.entries(CODERS).map(([name, code]) => [name, code(Buffer.from(WORDS))] as const);
const NOT_FOUND: HostileAnswer = {
  what: "nothing of this number",
  bytes: Buffer.from("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
  closing: "end",
};
