/** The thread of pglite-engine.ts: bytes of PostgreSQL's frontend protocol come in, the server's answers go out. */
import { parentPort, workerData } from "node:worker_threads";
import { PGlite } from "@electric-sql/pglite";

const port = parentPort!;
const { data, settings } = workerData as { data: string; settings: Record<string, string> };
const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
const database = await PGlite.create({
  dataDir: data,
  startParams: [...PGlite.defaultStartParams, ...flags],
});

port.on("message", async (message: Uint8Array | "close") => {
  if (message === "close") {
    await database.close();
    port.close();
    return;
  }
  for (const part of statementsOf(message)) {
    const answer = database.execProtocolRawSync(part);
    if (answer.length === 0) continue;
    // PGlite may answer with a part of the buffer that it goes on using.
    const own = answer.length === answer.buffer.byteLength ? answer : answer.slice();
    port.postMessage(own, [own.buffer as ArrayBuffer]);
  }
});
port.postMessage("ready");

const QUERY = 0x51;
const SYNC = 0x53;

/**
 * The bytes up to and with each message that ends a statement (PostgreSQL 17 section 53.2), so that one statement's answer
 * does not wait for the next one's.
 */
function* statementsOf(bytes: Uint8Array): Generator<Uint8Array> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  // The first message of a connection has no type, and nothing follows it before it is answered.
  if (bytes[0] === 0) return yield bytes;
  let from = 0;
  for (let at = 0; at < bytes.length; ) {
    const type = bytes[at];
    at += 1 + view.getUint32(at + 1);
    if (type !== QUERY && type !== SYNC) continue;
    yield bytes.subarray(from, at);
    from = at;
  }
  if (from < bytes.length) yield bytes.subarray(from);
}
