import { closeSync, readdirSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bytesOf, plan, run, shell, type TestLauncher, testLauncher } from "./sandboxes.ts";

const PORT = 3128;

let host: TestLauncher;
beforeAll(async () => {
  host = await testLauncher();
});
afterAll(() => host[Symbol.asyncDispose]());

/** Answers every connection with one line. */
async function serve(descriptor: number, line: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.end(line);
  });
  await new Promise<void>((resolve) => server.listen({ fd: descriptor }, resolve));
  return server;
}

const close = (server: Server) => new Promise((resolve) => server.close(resolve));
const ask = (port: number) => `exec 3<>/dev/tcp/127.0.0.1/${port} && cat <&3`;
const descriptors = () => readdirSync("/proc/self/fd").length;

describe("a port that listens inside a sandbox and is served from outside", () => {
  test("a program inside is answered by a server outside, whose host does not listen there", async () => {
    const sandbox = await host.launcher.launch(plan(shell(`${ask(PORT)}`), { loopbackPorts: [PORT] }));
    const [listener] = sandbox.listeners;
    const server = await serve(listener!, "from outside\n");
    expect((await bytesOf(sandbox.stdout)).toString()).toBe("from outside\n");
    expect(server.address()).toMatchObject({ address: "127.0.0.1", port: PORT });
    const refused = await new Promise((resolve) => {
      connect(PORT, "127.0.0.1", () => resolve("connected")).on("error", (error) =>
        resolve("code" in error && error.code),
      );
    });
    expect(refused).toBe("ECONNREFUSED");
    await close(server);
    await sandbox.destroy();
  });

  test("a connection that comes before the server waits for it", async () => {
    const sandbox = await host.launcher.launch(plan(shell(ask(PORT)), { loopbackPorts: [PORT] }));
    await new Promise((resolve) => setTimeout(resolve, 200));
    const server = await serve(sandbox.listeners[0]!, "late\n");
    expect((await bytesOf(sandbox.stdout)).toString()).toBe("late\n");
    await close(server);
    await sandbox.destroy();
  });

  test("two sandboxes with the same port do not meet, and each has its ports in the order of its plan", async () => {
    const script = `${ask(PORT)}; ${ask(8081)}`;
    const sandboxes = await Promise.all(
      [1, 2].map(() => host.launcher.launch(plan(shell(script), { loopbackPorts: [PORT, 8081] }))),
    );
    const servers: Server[] = [];
    for (const [index, { listeners }] of sandboxes.entries()) {
      for (const [at, listener] of listeners.entries())
        servers.push(await serve(listener, `${index}.${at}\n`));
    }
    const said = await Promise.all(sandboxes.map(({ stdout }) => bytesOf(stdout)));
    expect(said.map(String)).toEqual(["0.0\n0.1\n", "1.0\n1.1\n"]);
    await Promise.all(servers.map(close));
    await Promise.all(sandboxes.map((sandbox) => sandbox.destroy()));
  });

  test("nothing inside can take the port, not even with SO_REUSEADDR and SO_REUSEPORT, on any address", async () => {
    const script = `
import socket
for address in ("127.0.0.1", "0.0.0.0"):
    for options in ([], [socket.SO_REUSEADDR], [socket.SO_REUSEPORT], [socket.SO_REUSEADDR, socket.SO_REUSEPORT]):
        s = socket.socket()
        for option in options: s.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            s.bind((address, ${PORT})); s.listen(); print("taken", address, options)
        except OSError as error: print(error.errno)
`;
    const sandbox = await host.launcher.launch(
      plan(["/usr/bin/python3", "-c", script], { loopbackPorts: [PORT] }),
    );
    expect((await bytesOf(sandbox.stdout)).toString()).toBe("98\n".repeat(8)); // EADDRINUSE
    closeSync(sandbox.listeners[0]!);
    await sandbox.destroy();
  });

  test("a sandbox that asked for none has none", async () => {
    const { sandbox, stdout } = await run(host.launcher, shell(`(${ask(PORT)}) 2>/dev/null || echo refused`));
    expect(sandbox.listeners).toEqual([]);
    expect(stdout.toString()).toBe("refused\n");
  });

  test("no descriptor is left once sandbox and server are gone", async () => {
    const launchOnce = async () => {
      const sandbox = await host.launcher.launch(plan(shell(ask(PORT)), { loopbackPorts: [PORT, 8080] }));
      const server = await serve(sandbox.listeners[0]!, "");
      closeSync(sandbox.listeners[1]!);
      await bytesOf(sandbox.stdout);
      await bytesOf(sandbox.stderr);
      await close(server);
      await sandbox.destroy();
    };
    await launchOnce();
    const before = descriptors();
    for (let i = 0; i < 5; i++) await launchOnce();
    expect(descriptors()).toBe(before);
  });

  for (const [ports, message] of [
    [[0], "loopbackPorts hold 0, which is no port"],
    [[65_536], "loopbackPorts hold 65536, which is no port"],
    [[-1], "loopbackPorts hold -1, which is no port"],
    [[80, 81, 80], "loopbackPorts hold 80 twice"],
    [[1, 2, 3, 4, 5], "loopbackPorts are more than 4"],
  ] as const) {
    test(`the ports ${ports.join(", ")} are refused by name`, async () => {
      const refused = host.launcher.launch(plan(["true"], { loopbackPorts: [...ports] }));
      await expect(refused).rejects.toMatchObject({
        code: "INVALID_REQUEST",
        message: expect.stringContaining(message),
      });
    });
  }
});
