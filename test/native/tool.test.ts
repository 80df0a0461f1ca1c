/** dsec-tool as a shell meets it, against a real channel. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TOOL_DIRECTORY } from "#native/index.ts";
import { ChannelRig, type OpenChannel } from "#test/executor/channel/channel-under-test.ts";

let rig: ChannelRig;
let sandbox: OpenChannel;
let folder: string;
beforeAll(async () => {
  rig = await ChannelRig.open();
  sandbox = await rig.channel({ job: "tool-test" });
  folder = await mkdtemp(join(tmpdir(), "dsec-tool-"));
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

async function tool(args: string[], options: { socket?: string; stdin?: string } = {}) {
  const child = spawn(join(TOOL_DIRECTORY, "dsec-tool"), args, {
    env: { DSEC_SOCKET: options.socket ?? sandbox.socketPath },
  });
  child.stdin.on("error", () => {}); // it need not read it
  child.stdin.end(options.stdin ?? "");
  const [out, err, [code]] = await Promise.all([
    buffer(child.stdout),
    buffer(child.stderr),
    once(child, "exit"),
  ]);
  return { code: code as number, out: out.toString(), err: err.toString() };
}

test("the program is static and asks for nothing of its image", async () => {
  const bytes = await readFile(join(TOOL_DIRECTORY, "dsec-tool"));
  expect(bytes.subarray(1, 4).toString()).toBe("ELF");
  // No program header of type PT_INTERP (elf(5)): there is no loader to find.
  const [offset, size, count] = [
    Number(bytes.readBigUInt64LE(32)),
    bytes.readUInt16LE(54),
    bytes.readUInt16LE(56),
  ];
  const types = Array.from({ length: count }, (_, i) => bytes.readUInt32LE(offset + i * size));
  expect(types).not.toContain(3);
});

test("memory comes back as it was put, byte for byte, and conditions hold", async () => {
  const values = ["1.0", '"caf\u00e9"', '{"a":[1,null,true],"b":"\\n"}', "[]", "-0"];
  for (const value of values) {
    expect(await tool(["memory", "set", "a/b c%", value])).toMatchObject({ code: 0, out: "" });
    expect(await tool(["memory", "get", "a/b c%"])).toMatchObject({ code: 0, out: `${value}\n` });
  }
  expect(await tool(["memory", "set", "text", "--string", 'say "hi"'])).toMatchObject({ code: 0 });
  expect((await tool(["memory", "get", "text"])).out).toBe('"say \\"hi\\""\n');
  expect(await tool(["memory", "set", "text", "1", "--if-absent"])).toMatchObject({ code: 3 });
  expect((await tool(["memory", "set", "text", "1", "--if-version", "999"])).err).toContain(
    "MEMORY_VERSION_CONFLICT",
  );
  expect((await tool(["memory", "list", "--prefix", "te"])).out).toBe("text\n");
  expect(await tool(["memory", "delete", "text"])).toMatchObject({ code: 0 });
  expect(await tool(["memory", "get", "text"])).toMatchObject({ code: 7, out: "" });
});

test("messages, steps, rewards, tokens, context and observations go their way", async () => {
  expect((await tool(["message", "send", "c", '{"n":1}'])).out).toBe("1\n");
  expect((await tool(["message", "receive", "c", "--ack"])).out).toBe('{"n":1}\n');
  expect((await tool(["message", "receive", "c"])).out).toBe("");
  expect((await tool(["step", "begin", "look around", "--state", '{"page":1}'])).out).toBe("1\n");
  expect((await tool(["step", "end", "1", "--status", "failed"])).out).toBe("failed\n");
  expect((await tool(["reward", "found=1", "polite=0.5", "--weight", "polite=2"])).out).toBe("2\n");
  expect((await tool(["logits"], { stdin: '{"tokens":[{"id":1,"logprob":-0.5}]}' })).code).toBe(0);
  const file = join(folder, "context.json");
  await writeFile(file, '{"messages":[]}');
  expect((await tool(["context", "--input", `@${file}`])).out).toMatch(/^sha256:[0-9a-f]{64}\n$/);
  sandbox.channel.inject({
    seq: 1,
    from: rig.proxy.client.id,
    at: new Date().toISOString(),
    content: ["storm"],
  });
  expect((await tool(["observe"])).out).toBe('["storm"]\n');
});

test.each<[args: string[], code: number, why: RegExp]>([
  [["nope"], 2, /is not a command/],
  [["memory"], 2, /get, set, delete or list is missing/],
  [["memory", "fly"], 2, /not known/],
  [["memory", "get"], 2, /the key is missing/],
  [["memory", "get", "a", "b"], 2, /one word too many/],
  [["memory", "get", "a", "--colour"], 2, /--colour is not known/],
  [["api-call"], 2, /--url is missing/],
  [["api-call", "--url", "http://x/", "--timeout", "soon"], 2, /--timeout is soon/],
  [["api-call", "--url", "http://x/", "--header", "none"], 2, /Name: value/],
  [["api-call", "--url", "http://x/", "--body-file", "/no/such"], 2, /cannot open \/no\/such/],
  [["exec", "--tool"], 2, /needs a value/],
  [["reward"], 2, /no component/],
  [["reward", "a=b"], 2, /is not NAME=NUMBER/],
  [["memory", "set", "k", "{"], 3, /MALFORMED_JSON/],
  [["exec", "--tool", "nope"], 3, /TOOL_NOT_FOUND/],
  [["exec", "--tool", "nope", "--input", '{},"more":1'], 3, /more/],
  [["api-call", "--url", "http://elsewhere.example/"], 3, /DOMAIN_NOT_ALLOWED/],
  [["step", "end", "77"], 3, /STEP_NOT_FOUND/],
])("%j ends with exit code %i and says why", async (args, code, why) => {
  const ended = await tool(args);
  expect([ended.code, ended.out]).toEqual([code, ""]);
  expect(ended.err).toMatch(why);
});

test("without a channel it says so, and of an answer that is no HTTP it makes nothing", async () => {
  expect(await tool(["list"], { socket: join(folder, "nothing") })).toMatchObject({ code: 6 });
  for (const answer of [
    "",
    "nonsense\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
  ]) {
    const path = join(folder, "odd.sock");
    const server = createServer((socket) =>
      socket
        .on("error", () => {})
        .resume()
        .end(answer),
    );
    await once(server.listen(path), "listening");
    const ended = await tool(["list"], { socket: path });
    expect([answer, ended.code, ended.out]).toEqual([answer, 6, ""]);
    server.close();
    await once(server, "close");
  }
});

test("--help shows every command, and each documented exit code", async () => {
  const { code, out } = await tool(["--help"]);
  expect(code).toBe(0);
  for (const command of [
    "api-call",
    "exec",
    "list",
    "memory",
    "message",
    "step",
    "reward",
    "logits",
    "context",
    "observe",
  ]) {
    expect(out).toMatch(new RegExp(`^  ${command}\\b`, "m"));
  }
  expect(out).toMatch(/Exit codes: 0 done; 1 .* 7 no such memory key/s);
});
