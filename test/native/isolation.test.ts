import { mkdtempSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Namespace } from "#native/index.ts";
import { NATIVE_PROGRAMS, plan, run, shell, type TestLauncher, testLauncher } from "./sandboxes.ts";

const NAMESPACES: Namespace[] = ["pid", "net", "mnt", "uts", "ipc", "user", "cgroup"];
const NO_CAPABILITIES = "0000000000000000";

let host: TestLauncher;
let scratch: string;
beforeAll(async () => {
  host = await testLauncher();
  scratch = mkdtempSync(join(tmpdir(), "dsec-isolation-"));
});
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  rmSync(scratch, { recursive: true });
});

describe("the observation is what the kernel says", () => {
  test("every namespace differs from the host's, and the sandbox sees the same ones", async () => {
    const script = `for n in ${NAMESPACES.join(" ")}; do readlink /proc/self/ns/$n; done`;
    const { sandbox, stdout } = await run(host.launcher, shell(script));
    const { observation } = sandbox;
    expect(observation.unshared).toEqual(NAMESPACES);
    expect(stdout.toString().trim().split("\n")).toEqual(
      NAMESPACES.map((name) => observation.namespaces[name]),
    );
    for (const name of NAMESPACES)
      expect(observation.namespaces[name]).not.toBe(readlinkSync(`/proc/self/ns/${name}`));
  });

  test("no capabilities in any set, no new privileges, one filter, 65,536 ids, loopback only", async () => {
    const script = "grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status; tail -n +3 /proc/net/dev | wc -l";
    const { sandbox, stdout } = await run(host.launcher, shell(script));
    expect(sandbox.observation).toMatchObject({
      seccompMode: 2,
      seccompFilters: 1,
      noNewPrivs: true,
      capabilities: {
        effective: NO_CAPABILITIES,
        permitted: NO_CAPABILITIES,
        inheritable: NO_CAPABILITIES,
        bounding: NO_CAPABILITIES,
        ambient: NO_CAPABILITIES,
      },
      uidMap: { length: 65_536 },
      interfaces: ["lo"],
      rootFilesystem: "overlay",
    });
    expect(sandbox.observation.uidMap.hostFirst).toBeGreaterThanOrEqual(65_536);
    // the command's own view agrees
    expect(stdout.toString().match(/Cap\w+:\t0000000000000000/g)?.length).toBe(5);
    expect(stdout.toString()).toContain("NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n1\n");
  });

  test("two sandboxes alive at once share no ids and no namespace", async () => {
    const pair = await Promise.all([1, 2].map(() => host.launcher.launch(plan(["sleep", "60"]))));
    const [one, two] = pair.map((sandbox) => sandbox.observation);
    expect(Math.abs(one!.uidMap.hostFirst - two!.uidMap.hostFirst)).toBeGreaterThanOrEqual(65_536);
    for (const name of NAMESPACES) expect(one!.namespaces[name]).not.toBe(two!.namespaces[name]);
    const status = readFileSync(`/proc/${pair[0]!.pid}/status`, "latin1");
    expect(status).toContain(`Uid:\t${one!.uidMap.hostFirst}\t`);
    await Promise.all(pair.map((sandbox) => sandbox.destroy()));
  });
});

describe("what a sandbox must not be able to do", () => {
  /** What may succeed, because it reaches nothing but the sandbox itself. */
  const DONE = [
    "socket_unix",
    "socket_inet",
    "socket_inet6",
    "socket_udp",
    "socket_route",
    // the kernel drops the signal: see the test of processes below
    "kill_init",
    // makes its own init the first to fall when its memory runs out
    "oom_score",
    // on a file of its own, on a mount that ignores it
    "chmod_setuid",
  ];
  let attempts: Map<string, string>;
  beforeAll(async () => {
    const { stdout, end, stderr } = await run(host.launcher, ["/attempts"], {
      mounts: [{ source: join(NATIVE_PROGRAMS, "guests/attempts"), target: "/attempts" }],
    });
    expect([end.reason, end.exitCode, stderr.toString()]).toEqual(["exited", 0, ""]);
    attempts = new Map(
      stdout
        .toString()
        .trim()
        .split("\n")
        .map((line) => line.split(" ") as [string, string]),
    );
  });

  test("nothing on the list succeeds", () => {
    const succeeded = [...attempts].filter(([, result]) => result === "done").map(([name]) => name);
    expect(succeeded.filter((name) => !DONE.includes(name))).toEqual([]);
    expect(attempts.size).toBeGreaterThanOrEqual(64);
  });

  test("what programs may fall back from says that it is not there", () => {
    const absent = [
      "clone3",
      "socket_vsock",
      "socket_packet",
      "socket_netfilter",
      // each of them would have the kernel load a module
      "socket_sctp",
      "socket_sctp_packets",
      "socket_dccp",
      "socket_l2tp",
    ];
    for (const name of absent) {
      expect([name, attempts.get(name)]).toEqual([name, "ENOSYS"]);
    }
  });

  test("what is refused on purpose says so", () => {
    const refused = [
      "ptrace",
      "unshare_user",
      "mount",
      "bpf",
      "io_uring_setup",
      "tiocsti",
      "tiocsti_high_bits",
      "keyctl",
      "perf_event_open",
    ];
    for (const name of refused) expect([name, attempts.get(name)]).toEqual([name, "EPERM"]);
  });

  test("no other identity is to be had, and set-user-ID files on the host's disk are out of reach", () => {
    expect([attempts.get("become_other"), attempts.get("chown_to_other")]).toEqual(["EPERM", "EPERM"]);
    expect(statSync(host.stateDirectory).mode & 0o777).toBe(0o700);
    expect(statSync(join(host.stateDirectory, "sandboxes")).mode & 0o777).toBe(0o700);
  });

  test("init cannot be looked into", () => {
    for (const name of ["init_memory", "init_descriptors", "init_root", "init_executable"]) {
      expect([name, attempts.get(name)]).toEqual([name, "EACCES"]);
    }
  });
});

test("no process outside can be seen or signalled, and init shrugs off a kill", async () => {
  const script = `
    kill -9 1; kill -9 ${process.pid} ${process.ppid} 2>&1 | grep -c "No such process"
    kill -9 -- -1
    echo unreachable`;
  const listing = await run(host.launcher, shell("ls -d /proc/[0-9]*; kill -0 1 && echo init lives"));
  // init, the shell, ls
  expect(listing.stdout.toString().trim().split("\n").length).toBeLessThanOrEqual(5);
  const { end } = await run(host.launcher, shell(script));
  expect([end.reason, end.signal].join()).not.toBe("timed_out,9");
  expect(() => process.kill(process.pid, 0)).not.toThrow();
});

test("nothing of the host's own is visible: its /etc, homes, state, or other sandboxes", async () => {
  const secret = join(scratch, "secret");
  writeFileSync(secret, "host secret", { mode: 0o644 });
  const script = `
    cat ${secret} /etc/shadow /root/.npmrc /etc/ssh/ssh_host_rsa_key 2>/dev/null
    ls -A /root /home /opt /srv /mnt /run /sys /boot /work 2>/dev/null | grep -v ':$' | grep -v '^$'
    find / -xdev -path /proc -prune -o -type f -newer /nonexistent -print 2>/dev/null
    cat /etc/passwd | wc -l; hostname; cat /proc/self/mountinfo /proc/mounts /proc/self/cgroup`;
  const { stdout } = await run(host.launcher, shell(script), { id: "visible" });
  const text = stdout.toString();
  // In /run there is the place of what every sandbox is given.
  expect(text.split("\n").slice(0, 3)).toEqual(["dsec", "2", "sandbox"]);
  expect(text).not.toContain(host.stateDirectory);
  expect(text).not.toContain("host secret");
  // in its own cgroup namespace every path is the root
  expect(text.match(/^\d+:[^:]*:\/.+$/gm)).toBeNull();
});

test("everything is mounted nosuid, and nodev but for the six devices", async () => {
  const { stdout } = await run(host.launcher, shell("cat /proc/self/mountinfo"));
  for (const line of stdout.toString().trim().split("\n")) {
    const [, , , , mountPoint, options] = line.split(" ");
    expect([mountPoint, options!.split(",").includes("nosuid")]).toEqual([mountPoint, true]);
    const isDevice = mountPoint === "/dev" || line.includes(" - tmpfs tmpfs rw,size=64k");
    if (!isDevice) expect([mountPoint, options!.split(",").includes("nodev")]).toEqual([mountPoint, true]);
  }
});

test("the network is the sandbox's own loopback, and it works", async () => {
  const script = `
import socket, threading
server = socket.create_server(("127.0.0.1", 8080))
threading.Thread(target=lambda: server.accept()[0].sendall(b"pong"), daemon=True).start()
print(socket.create_connection(("127.0.0.1", 8080)).recv(4).decode())
for address in (("10.0.0.1", 80), ("169.254.169.254", 80), ("8.8.8.8", 53)):
    try:
        socket.create_connection(address, timeout=2)
        print("REACHED", address)
    except OSError as error:
        print(error.errno)
print([name for _, name in socket.if_nameindex()])`;
  const { stdout } = await run(host.launcher, ["python3", "-c", script]);
  // 101 is ENETUNREACH
  expect(stdout.toString()).toBe("pong\n101\n101\n101\n['lo']\n");
});

test("what tasks are made of runs: bash, python, git, gcc, tar, threads, and node where the host has it", async () => {
  const script = `
    set -e
    cd /tmp
    python3 - <<'P'
import threading, subprocess, tempfile, multiprocessing, sqlite3, ssl, hashlib, json
t = threading.Thread(target=lambda: None); t.start(); t.join()
assert subprocess.run(["true"]).returncode == 0
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
sqlite3.connect("/tmp/x.db").execute("create table t (x)")
P
    echo 'int main(){return 42;}' > a.c && gcc a.c -o a && (./a || test $? = 42)
    git init -q r && cd r && git config user.email a@b && git config user.name n && echo x > f && git add f && git commit -qm m && git log --oneline | wc -l
    tar cf ../r.tar . && mkdir ../s && tar xf ../r.tar -C ../s && cat ../s/f
    if command -v node >/dev/null; then node -e 'require("node:worker_threads"); console.log(require("node:fs").readFileSync("f","utf8").trim())'; else echo x; fi
    mv f g; rm -rf /tmp/s; ln g h; ln -s g i; chmod 600 g; df / > /dev/null; echo ok`;
  const { stdout, stderr, end } = await run(host.launcher, shell(script));
  expect([stdout.toString(), stderr.toString(), end.exitCode]).toEqual(["1\nx\nx\nok\n", "", 0]);
});

test("the lower layer stays as it is for the next sandbox", async () => {
  await run(host.launcher, shell("rm -rf /etc/*; echo planted > /etc/passwd; mkdir /planted"));
  const { stdout } = await run(
    host.launcher,
    shell("head -c 4 /etc/passwd; ls -d /planted 2>&1 | grep -c cannot"),
  );
  expect(stdout.toString()).toBe("root1\n");
});
