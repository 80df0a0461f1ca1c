import { closeSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Sandbox } from "#native/index.ts";
import { plan, runKept, shell, type TestLauncher, testLauncher } from "./sandboxes.ts";

let host: TestLauncher;
let scratch: string;
beforeAll(async () => {
  host = await testLauncher();
  scratch = mkdtempSync(join(tmpdir(), "dsec-output-"));
});
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  rmSync(scratch, { recursive: true });
});

function contentOf(sandbox: Sandbox, path: string): string | null {
  const descriptor = sandbox.openOutput(Buffer.from(path));
  if (descriptor === null) return null;
  const content = readFileSync(descriptor, "latin1");
  closeSync(descriptor);
  return content;
}

function namesIn(sandbox: Sandbox, path: string): string[] {
  const entries = [...sandbox.listOutput(Buffer.from(path))].flat();
  return entries.map(({ name, kind }) => `${Buffer.from(name).toString("latin1")} ${kind}`).sort();
}

describe("what a sandbox wrote can be read when it has ended", () => {
  test("new, changed and untouched files, by absolute and relative paths", async () => {
    const script =
      "mkdir -p out/deep; printf 'a\\0b' > out/deep/f; echo more >> /etc/hosts; rm /etc/group; chmod 0 out/deep/f";
    const { sandbox } = await runKept(host.launcher, shell(script));
    expect(contentOf(sandbox, "/work/out/deep/f")).toBe("a\0b");
    expect(contentOf(sandbox, "work/out/../out/deep/f")).toBe("a\0b");
    expect(contentOf(sandbox, "/etc/hosts")).toContain("localhost");
    expect(contentOf(sandbox, "/etc/hosts")).toContain("more\n");
    expect(contentOf(sandbox, "/etc/passwd")).toContain("root:");
    expect(contentOf(sandbox, "/etc/group")).toBeNull();
    expect(namesIn(sandbox, "/work")).toEqual(["out directory"]);
    expect(namesIn(sandbox, "/work/out/deep")).toEqual(["f file"]);
    await sandbox.destroy();
  });

  test("a folder of many names comes in pieces, each name once, and leaves no descriptor open", async () => {
    const { sandbox } = await runKept(host.launcher, shell("mkdir d; cd d; seq 1500 | xargs touch"));
    const pieces = [...sandbox.listOutput(Buffer.from("/work/d"))];
    const names = pieces.flat().map(({ name }) => Number(Buffer.from(name).toString()));
    expect(names.sort((a, b) => a - b)).toEqual(Array.from({ length: 1500 }, (_, n) => n + 1));
    expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThan(1000);
    const open = () => readdirSync("/proc/self/fd").length;
    const before = open();
    for (const piece of sandbox.listOutput(Buffer.from("/work/d"))) {
      expect(piece.length).toBeGreaterThan(0);
      break;
    }
    expect(open()).toBe(before);
    await sandbox.destroy();
  });

  test("names are bytes", async () => {
    const { sandbox } = await runKept(host.launcher, shell("printf x > $'/work/\\377name\n'"));
    const [entry] = [...sandbox.listOutput(Buffer.from("/work"))].flat();
    expect(Buffer.from(entry!.name).toString("latin1")).toBe("\xffname\n");
    const path = Buffer.concat([Buffer.from("/work/"), entry!.name]);
    const descriptor = sandbox.openOutput(path)!;
    expect(readFileSync(descriptor, "latin1")).toBe("x");
    closeSync(descriptor);
    await sandbox.destroy();
  });
});

describe("planted links resolve within the sandbox or not at all (B13)", () => {
  test("no link, however made, leads to the host", async () => {
    const secret = join(scratch, "secret");
    writeFileSync(secret, "host secret");
    const script = `
      ln -s /etc/shadow shadow; ln -s ${secret} secret; ln -s / root; ln -s /proc/self/root proc_root
      ln -s /proc/1/root/etc/shadow via_proc; ln -s ../../../../../../../..${secret} up
      ln -s ../../../../../../etc/passwd own_passwd; ln -s loop loop; ln -s /dev/null null
      echo in > real; ln -s real to_real; ln -s /work/real to_absolute`;
    const { sandbox } = await runKept(host.launcher, shell(script));
    for (const name of ["secret", "via_proc", "up", "loop", "null", "proc_root/etc/shadow"])
      expect([name, contentOf(sandbox, `/work/${name}`)]).toEqual([name, null]);
    expect(contentOf(sandbox, `../../../..${secret}`)).toBeNull();
    expect(contentOf(sandbox, "/proc/self/root/etc/shadow")).toBeNull();
    // the link leads to the sandbox's own file, not the host's
    const inImage = (name: string) => readFileSync(join(host.stateDirectory, "host-image/etc", name), "utf8");
    for (const name of ["shadow", "root/etc/shadow"])
      expect([name, contentOf(sandbox, `/work/${name}`)]).toEqual([name, inImage("shadow")]);
    expect(inImage("shadow")).not.toBe(readFileSync("/etc/shadow", "utf8"));
    expect(contentOf(sandbox, "/work/own_passwd")).toBe(inImage("passwd"));
    expect(contentOf(sandbox, "/work/to_real")).toBe("in\n");
    expect(contentOf(sandbox, "/work/to_absolute")).toBe("in\n");
    expect(namesIn(sandbox, "/work/root")).toContain("work directory");
    expect(namesIn(sandbox, "/work/root")).not.toContain("boot directory");
    expect(namesIn(sandbox, "/work")).toContain("root link");
    await sandbox.destroy();
  });

  test("what is no regular file is never opened, and never waited for", async () => {
    const script =
      "mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; mkdir folder";
    const { sandbox } = await runKept(host.launcher, shell(script));
    for (const name of ["fifo", "socket", "folder", "none", ""])
      expect(contentOf(sandbox, `/work/${name}`)).toBeNull();
    expect(sandbox.openOutput(Buffer.from("/work/fi\0fo"))).toBeNull();
    expect(namesIn(sandbox, "/work")).toEqual(["fifo other", "folder directory", "socket other"]);
    expect(namesIn(sandbox, "/work/fifo")).toEqual([]);
    await sandbox.destroy();
  });

  test("nothing is opened before the end and after the folder is gone", async () => {
    const sandbox = await host.launcher.launch(plan(["sleep", "60"]));
    expect(sandbox.openOutput(Buffer.from("/etc/passwd"))).toBeNull();
    sandbox.kill();
    await sandbox.ended;
    expect(contentOf(sandbox, "/etc/passwd")).not.toBeNull();
    await sandbox.destroy();
    expect(sandbox.openOutput(Buffer.from("/etc/passwd"))).toBeNull();
    expect(namesIn(sandbox, "/")).toEqual([]);
  });
});
