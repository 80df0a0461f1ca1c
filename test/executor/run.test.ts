import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LIMITS } from "#core/limits.ts";
import { AttestationClaimsSchema } from "#core/wire/attestations.ts";
import { openTestGateway, type TestGateway } from "#test/gateway/gateway-under-test.ts";
import { leastMs } from "#test/support/least-ms.ts";
import { eventually, Rig } from "./executor-under-test.ts";
import { processesOf } from "./host.ts";

let gateway: TestGateway;
let rig: Rig;
beforeAll(async () => {
  gateway = await openTestGateway();
  rig = await Rig.open(gateway);
  await rig.start();
});
afterAll(async () => {
  await rig?.[Symbol.asyncDispose]();
  await gateway?.close();
});

const claimsOf = (jwt: string) =>
  AttestationClaimsSchema.parse(JSON.parse(Buffer.from(jwt.split(".")[1]!, "base64url").toString()));

test("a command's output, exit code, files and attestation come back", async () => {
  const { task, stdout, stderr, attestations, output } = await rig.sh(
    "echo out; echo err >&2; mkdir -p sub; echo data > sub/file.txt; exit 3",
    { outputs: ["**/*.txt"], nonce: "nonce-of-client" },
  );
  expect(task.state).toBe("failed");
  expect(task.result!.outcome).toEqual({ reason: "exited", exit_code: 3, signal: null, message: null });
  expect(stdout.toString()).toBe("out\n");
  expect(stderr.toString()).toBe("err\n");
  expect((await output("/work/sub/file.txt")).toString()).toBe("data\n");
  const claims = claimsOf(attestations[0]!.jwt);
  expect(claims.sub).toBe(task.id);
  expect(claims.eat_nonce).toBe("nonce-of-client");
  expect(claims.dsec.result).toEqual(task.result);
  expect(claims.dsec.isolation).toMatchObject({
    seccomp_mode: 2,
    no_new_privs: true,
    interfaces: ["lo"],
    capabilities: { effective: "00000000000000fb", bounding: "00000000000000fb" },
  });
  expect(claims.dsec.isolation!.unshared.toSorted()).toEqual([
    "cgroup",
    "ipc",
    "mnt",
    "net",
    "pid",
    "user",
    "uts",
  ]);
});

test("many tasks at once each get their own output", async () => {
  const finished = await Promise.all(
    Array.from({ length: 24 }, (_, i) =>
      rig.sh(`echo task ${i}; sleep 0.1; echo ${i} > out`, { outputs: ["out"] }),
    ),
  );
  for (const [i, { task, stdout, output }] of finished.entries()) {
    expect(task.state).toBe("succeeded");
    expect(stdout.toString()).toBe(`task ${i}\n`);
    expect((await output("/work/out")).toString()).toBe(`${i}\n`);
  }
});

test("output that is no text arrives byte for byte (B04)", async () => {
  const script = String.raw`printf '\377\376ok\200'; printf 'caf\351' >&2; printf '\000\377' > f`;
  const { task, stdout, stderr, output } = await rig.sh(script, { outputs: ["f"] });
  expect([...stdout]).toEqual([0xff, 0xfe, 0x6f, 0x6b, 0x80]);
  expect([...stderr]).toEqual([0x63, 0x61, 0x66, 0xe9]);
  expect([...(await output("/work/f"))]).toEqual([0x00, 0xff]);
  expect(task.state).toBe("succeeded");
});

test.each([65_536, 65_537, 10 * 1024 * 1024])(
  "%i bytes to either stream come whole, and the task ends (B03)",
  async (size) => {
    for (const stream of ["1", "2"]) {
      const { task, stdout, stderr } = await rig.sh(`head -c ${size} /dev/zero >&${stream}`);
      expect(task.result!.outcome).toMatchObject({ reason: "exited", exit_code: 0 });
      expect((stream === "1" ? stdout : stderr).length).toBe(size);
    }
  },
);

test("a mebibyte to standard error and then one to standard output do not block each other (B03)", async () => {
  const { stdout, stderr } = await rig.sh("head -c 1048576 /dev/zero >&2; head -c 1048576 /dev/zero");
  expect([stdout.length, stderr.length]).toEqual([1_048_576, 1_048_576]);
});

test("output past the kept bound is counted, and the task still ends", async () => {
  const { task, stdout } = await rig.sh(`head -c ${LIMITS.streamKeptBytes + 4096} /dev/zero`);
  expect(task.result!.stdout).toMatchObject({
    kept_bytes: LIMITS.streamKeptBytes,
    total_bytes: LIMITS.streamKeptBytes + 4096,
  });
  expect(stdout.length).toBe(LIMITS.streamKeptBytes);
});

test.each([
  ["kill -9 $$", { reason: "signaled", exit_code: 137, signal: "SIGKILL" }],
  ["kill -SEGV $$", { reason: "signaled", exit_code: 139, signal: "SIGSEGV" }],
  ["exit 137", { reason: "exited", exit_code: 137, signal: null }],
  ['sh -c "kill -9 \\$\\$"; exit $?', { reason: "exited", exit_code: 137, signal: null }],
])("%s is told as what it was (B06)", async (script, outcome) => {
  const { task } = await rig.sh(script);
  expect(task.state).toBe("failed");
  expect(task.result!.outcome).toMatchObject(outcome);
});

test("out of memory, a deadline and a signal of its own are three different ends (B07)", async () => {
  const [memory, deadline, own] = await Promise.all([
    rig.run({
      command: ["python3", "-c", "x = bytearray(512 * 1024 * 1024)"],
      resources: { memory_mb: 64 },
    }),
    rig.sh("trap '' TERM; echo before; sleep 60", { timeout_ms: 3_000 }),
    rig.sh("kill -9 $$"),
  ]);
  expect(memory.task.result!.outcome).toMatchObject({ reason: "oom_killed", exit_code: 137 });
  expect(deadline.task.result!.outcome).toMatchObject({ reason: "timed_out", exit_code: null, signal: null });
  expect(deadline.stdout.toString()).toBe("before\n");
  expect(own.task.result!.outcome).toMatchObject({ reason: "signaled", signal: "SIGKILL" });
  for (const { attestations, task } of [memory, deadline, own]) {
    expect(claimsOf(attestations[0]!.jwt).dsec.result).toEqual(task.result);
  }
});

test.each([["setsid sleep 987650 & wait"], ["(setsid sh -c 'sleep 987651 & sleep 987652' &) ; sleep 60"]])(
  "a deadline ends everything that %s started, in whatever session (B01)",
  async (script) => {
    const { task } = await rig.sh(script, { timeout_ms: 500 });
    expect(task.result!.outcome.reason).toBe("timed_out");
    expect(await processesOf("sleep 98765")).toEqual([]);
  },
);

test.each([["cat"], ["grep x"], ["python3"]])("%s finds standard input at its end (B08)", async (command) => {
  const { task, stdout } = await rig.run({ command: command.split(" "), timeout_ms: 20_000 });
  expect(task.result!.outcome.reason).toBe("exited");
  expect(stdout.length).toBe(0);
});

test("text given as standard input is read to its end", async () => {
  const text = `zeile\n${"ü".repeat(70_000)}`;
  const { stdout } = await rig.run({ command: ["cat"], stdin: text });
  expect(stdout.toString()).toBe(text);
});

test("a failure whose text no database takes ends the attempt and can be read, and output of such bytes is kept (B56)", async () => {
  const { stdout } = await rig.run({ command: ["head", "-c", "1000", "/dev/zero"] });
  expect(stdout.equals(Buffer.alloc(1000))).toBe(true);
  for (const labels of [{ "na\0me": "value" }, { name: "va\0lue" }]) {
    const given = { command: ["true"], labels };
    expect(await rig.client.refused("POST", "/v1/tasks", given)).toMatchObject({ code: "INVALID_REQUEST" });
  }

  const apart = await openTestGateway();
  try {
    await using failing = await Rig.open(apart);
    // Cut at its bound, in the middle of a pair of surrogates.
    const message = `gone: \0 ${"😀".repeat(3_000)}`;
    const artifact = await failing.client.upload(randomBytes(10));
    await failing.start({
      fetch: async (request) => {
        if (request.method !== "GET" || !request.url.endsWith(artifact)) return failing.fetch(request);
        const error = { code: "ARTIFACT_NOT_FOUND", message, request_id: "odd" };
        return Response.json({ error }, { status: 404 });
      },
    });
    const inputs = [{ artifact, mount_path: "/data/in" }];
    const { id } = await failing.submit({ command: ["true"], inputs, retries: 0 });
    const { state, result } = await failing.until(id, ({ state }) => state === "dead");
    expect([state, result?.outcome.reason]).toEqual(["dead", "launch_failed"]);
    expect(result?.outcome.message).toMatch(/gone: \\u0000 (😀)+\ufffd$/u);
    expect(result?.outcome.message).toHaveLength(LIMITS.errorTextChars);
  } finally {
    await apart.close();
  }
});

test("a command that does not exist is a result of its own, naming what was tried", async () => {
  const { task } = await rig.run({ command: ["/usr/bin/no-such-program"] });
  expect(task.state).toBe("failed");
  expect(task.result!.outcome).toMatchObject({
    reason: "command_not_found",
    exit_code: 127,
    message: expect.stringContaining("/usr/bin/no-such-program"),
  });
});

test("a command that is there and does not start is another result, naming the file and the reason", async () => {
  const { task } = await rig.run({ command: ["/etc/passwd"] });
  expect(task.state).toBe("failed");
  expect(task.result!.outcome).toMatchObject({
    reason: "command_not_executable",
    exit_code: 126,
    message: "execve /etc/passwd: Permission denied",
  });
});

test("inputs are there, cannot be written, and are fetched once", async () => {
  const content = randomBytes(300_000);
  const artifact = await rig.client.upload(content);
  const before = fetches(artifact).length;
  const inputs = [
    { artifact, mount_path: "/data/in" },
    { artifact, mount_path: "/work/program" },
  ];
  const script =
    "cat /data/in; echo x > /data/in; rm /data/in; chmod 777 /data/in; test -x /work/program && echo run >&2";
  const [first] = await Promise.all([rig.sh(script, { inputs }), rig.sh(script, { inputs })]);
  expect(first.stdout.equals(content)).toBe(true);
  expect(first.stderr.toString()).toMatch(/Read-only file system/);
  expect(first.stderr.toString()).toMatch(/run\n$/);
  expect((await rig.sh(script, { inputs })).stdout.equals(content)).toBe(true);
  expect(fetches(artifact).length - before).toBe(1);
});

test("outputs never lead out of the sandbox, and links inside it still work (B13)", async () => {
  const script = [
    "ln -s /etc/shadow a",
    "ln -s / d",
    "ln -s ../../../../../../etc/hostname s",
    "ln -s /proc/self/root r",
    "ln -s /proc/1/root/etc/shadow p",
    "echo real > real; ln -s real good; ln -s /work/real absolute",
    "ln -s /work loop",
    "mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'",
  ].join("; ");
  const { task, output } = await rig.sh(script, { outputs: ["**", "d/etc/shadow", "r/etc/shadow", "p"] });
  expect(task.state).toBe("succeeded");
  const paths = task.result!.outputs.map(({ path }) => path);
  expect(paths).toContain("/work/good");
  expect((await output("/work/good")).toString()).toBe("real\n");
  expect((await output("/work/absolute")).toString()).toBe("real\n");
  const secrets = [readFileSync("/etc/shadow"), readFileSync("/etc/hostname")];
  for (const path of paths) {
    const bytes = await output(path);
    for (const secret of secrets) expect(bytes.equals(secret), path).toBe(false);
  }
});

test("output names of any bytes come back percent-escaped", async () => {
  const { task } = await rig.sh(
    String.raw`printf x > "$(printf 'a\377')"; printf y > 'per%cent'; printf z > ü`,
    {
      outputs: ["*"],
    },
  );
  expect(task.result!.outputs.map(({ path }) => path)).toEqual(["/work/a%FF", "/work/per%25cent", "/work/ü"]);
});

test("too many or too large outputs are said, none is kept, and it is no success", async () => {
  const many = await rig.sh(`i=0; while [ $i -le ${LIMITS.outputFiles} ]; do : > f$i; i=$((i+1)); done`, {
    outputs: ["f*"],
  });
  const large = await rig.sh(`truncate -s ${LIMITS.outputFileBytes + 1} big; echo kept > small`, {
    outputs: ["*"],
    resources: { disk_mb: 4096 },
  });
  for (const { task } of [many, large]) {
    expect(task.state).toBe("failed");
    expect(task.result!.outputs).toEqual([]);
    expect(task.result!.outcome).toMatchObject({
      reason: "output_too_large",
      exit_code: 0,
      message: expect.stringMatching(/^OUTPUT_TOO_LARGE: .*\d+/),
    });
  }
});

test("as many outputs as the bound allows are all attested", async () => {
  const { task, attestations } = await rig.sh(
    `i=0; while [ $i -lt ${LIMITS.outputFiles} ]; do echo $i > f$i; i=$((i+1)); done`,
    { outputs: ["f*"] },
  );
  expect(task.state).toBe("succeeded");
  expect(task.result!.outputs).toHaveLength(LIMITS.outputFiles);
  expect(claimsOf(attestations[0]!.jwt).dsec.result.outputs).toEqual(task.result!.outputs);
});

test("a cancellation reaches a running task within a second, and is attested", async () => {
  const tookMs = await leastMs(1_000, async () => {
    const { id } = await rig.submit({ command: ["sh", "-c", "echo begun; sleep 600"] });
    await rig.until(id, ({ state }) => state === "running");
    const askedAtMs = performance.now();
    await rig.client.ok("POST", `/v1/tasks/${id}/cancel`);
    const { task, attestations } = await rig.finished(id);
    const cancelled = { reason: "cancelled", exit_code: null, signal: null, message: null };
    expect(task).toMatchObject({ state: "cancelled", result: { outcome: cancelled } });
    expect(claimsOf(attestations[0]!.jwt).dsec.result.outcome.reason).toBe("cancelled");
    return performance.now() - askedAtMs;
  });
  expect(tookMs).toBeLessThan(1_000);
});

test("an image that this executor lacks fails the attempt, saying what there is", async () => {
  const digest = `sha256:${"0".repeat(64)}`;
  const { task } = await rig.run({ image: digest, retries: 0 });
  expect(task.state).toBe("dead");
  expect(task.result?.outcome.message ?? "").toMatch(/IMAGE_NOT_FOUND: image sha256:0+ .*host/);
});

test("nothing of any attempt is left in the executor's folder", async () => {
  await eventually(async () => (await readdir(join(rig.directory, "data/attempts"))).length === 0);
  expect(existsSync(join(rig.directory, "data/identity.jwk"))).toBe(true);
});

/** How often the executor has fetched an artifact. */
function fetches(artifact: string): string[] {
  return rig.requests.filter((request) => request === `GET /v1/artifacts/${artifact}`);
}
