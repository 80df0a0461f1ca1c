import { execFileSync } from "node:child_process";
import { chownSync, mkdtempSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { capabilityNames, SANDBOX_CAPABILITIES } from "#core/capabilities.ts";
import type { Namespace } from "#native/index.ts";
import { NATIVE_PROGRAMS, plan, run, runKept, shell, type TestLauncher, testLauncher } from "./sandboxes.ts";

const NAMESPACES: Namespace[] = ["pid", "net", "mnt", "uts", "ipc", "user", "cgroup"];
const NO_CAPABILITIES = "0000000000000000";
/** chown, dac_override, fowner, fsetid, kill, setgid, setuid */
const OVER_OWN_IDS = "00000000000000fb";

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

  test("the declared capabilities and no other, no new privileges, one filter, 65,536 ids, loopback only", async () => {
    const script = "grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status; tail -n +3 /proc/net/dev | wc -l";
    const { sandbox, stdout } = await run(host.launcher, shell(script));
    expect(sandbox.observation).toMatchObject({
      seccompMode: 2,
      seccompFilters: 1,
      noNewPrivs: true,
      capabilities: {
        effective: OVER_OWN_IDS,
        permitted: OVER_OWN_IDS,
        inheritable: NO_CAPABILITIES,
        bounding: OVER_OWN_IDS,
        ambient: NO_CAPABILITIES,
      },
      uidMap: { length: 65_536 },
      interfaces: ["lo"],
      rootFilesystem: "overlay",
    });
    expect(capabilityNames(OVER_OWN_IDS)).toEqual(SANDBOX_CAPABILITIES);
    expect(sandbox.observation.uidMap.hostFirst).toBeGreaterThanOrEqual(65_536);
    // the command's own view agrees
    const own = stdout.toString().split("\n").slice(0, 5);
    expect(own).toEqual([
      `CapInh:\t${NO_CAPABILITIES}`,
      `CapPrm:\t${OVER_OWN_IDS}`,
      `CapEff:\t${OVER_OWN_IDS}`,
      `CapBnd:\t${OVER_OWN_IDS}`,
      `CapAmb:\t${NO_CAPABILITIES}`,
    ]);
    expect(stdout.toString()).toContain("NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n1\n");
  });

  test("a process that becomes another user has no capability left, nor do the programs it runs", async () => {
    const script = "setpriv --reuid 1000 --regid 1000 --clear-groups grep ^Cap /proc/self/status";
    const { stdout } = await run(host.launcher, shell(script));
    const sets = new Map(
      stdout
        .toString()
        .trim()
        .split("\n")
        .map((line) => line.split(":\t") as [string, string]),
    );
    expect([sets.get("CapEff"), sets.get("CapPrm"), sets.get("CapInh"), sets.get("CapAmb")]).toEqual(
      Array(4).fill(NO_CAPABILITIES),
    );
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

  test("sandboxes of two launchers on one host share no ids, whatever their state folders", async () => {
    await using one = await testLauncher();
    await using other = await testLauncher();
    const launchers = [one, other, one, other].map(({ launcher }) => launcher);
    const alive = await Promise.all(launchers.map((launcher) => launcher.launch(plan(["sleep", "60"]))));
    const firsts = alive.map((sandbox) => sandbox.observation.uidMap.hostFirst).sort((a, b) => a - b);
    for (let i = 1; i < firsts.length; i++)
      expect(firsts[i]! - firsts[i - 1]!, firsts.join()).toBeGreaterThanOrEqual(65_536);
    await Promise.all(alive.map((sandbox) => sandbox.destroy()));
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
    // of its own ids, and of files that belong to them
    "become_other",
    "chown_to_other",
    // a question
    "personality_query",
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
    expect(attempts.size).toBeGreaterThanOrEqual(87);
  });

  test.each([
    [
      "a family of sockets",
      "EAFNOSUPPORT",
      ["socket_vsock", "socket_pair_vsock", "socket_high_bits", "socket_kernel_crypto"],
    ],
    // each protocol and type that is not there would have the kernel load a module
    ["a protocol", "EPROTONOSUPPORT", ["socket_audit", "socket_netfilter", "socket_sctp", "socket_l2tp"]],
    ["a type of sockets", "ESOCKTNOSUPPORT", ["socket_sctp_packets", "socket_dccp"]],
    [
      "a call",
      "ENOSYS",
      ["clone3", "keyctl", "add_key", "request_key", "mbind", "get_mempolicy", "modify_ldt"],
    ],
  ])("%s that is not there answers %s, by which programs go on without it", (_, errno, names) => {
    for (const name of names) expect([name, attempts.get(name)]).toEqual([name, errno]);
  });

  test("what is refused on purpose says so", () => {
    const refused = [
      "ptrace",
      "unshare_user",
      "clone_user",
      "clone_high_bits",
      "socket_packet",
      "mount",
      "bpf",
      "io_uring_setup",
      "tiocsti",
      "tiocsti_high_bits",
      "perf_event_open",
    ];
    for (const name of refused) expect([name, attempts.get(name)]).toEqual([name, "EPERM"]);
  });

  test("ids outside its own cannot be taken or given away, and a user inside cannot become root again", () => {
    const unmapped = ["become_unmapped", "join_unmapped_group", "chown_to_unmapped"];
    for (const name of unmapped) expect([name, attempts.get(name)]).toEqual([name, "EINVAL"]);
    for (const name of ["other_becomes_root", "other_chowns"])
      expect([name, attempts.get(name)]).toEqual([name, "EPERM"]);
    expect(attempts.get("other_reads_root")).toBe("EACCES");
  });

  test("the power over files ends at the host's, at inputs, at devices and at what the kernel shows", () => {
    const readOnly = ["chown_usr", "chmod_usr", "write_program", "remove_program"];
    readOnly.push("chmod_input", "chown_input", "chmod_device", "chown_device");
    for (const name of readOnly) expect([name, attempts.get(name)]).toEqual([name, "EROFS"]);
    const foreign = ["chown_standard_output", "chmod_shared_memory", "chown_proc", "mknod_null"];
    foreign.push("trusted_attribute", "file_capabilities");
    for (const name of foreign) expect([name, attempts.get(name)]).toEqual([name, "EPERM"]);
  });

  test("no capability can be added", () => {
    for (const name of ["capset_all", "capset_inheritable", "ambient", "securebits"])
      expect([name, attempts.get(name)]).toEqual([name, "EPERM"]);
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
    cat ${secret} /root/.npmrc /etc/ssh/ssh_host_rsa_key /etc/machine-id 2>/dev/null
    grep -v ':[*]:19000:' /etc/shadow; ls -d /etc/ssl/private 2>/dev/null
    ls -A /root /home /opt /srv /mnt /run /boot /work 2>/dev/null | grep -v ':$' | grep -v '^$'
    find / -xdev -path /proc -prune -o -type f -newer /nonexistent -print 2>/dev/null
    cat /etc/passwd | wc -l; hostname; cat /proc/self/mountinfo /proc/mounts /proc/self/cgroup`;
  const { stdout } = await run(host.launcher, shell(script), { id: "visible" });
  const text = stdout.toString();
  // In /run there is the place of what every sandbox is given, and one for locks.
  expect(text.split("\n").slice(0, 3)).toEqual(["dsec", "lock", "18"]);
  expect(text).not.toContain(host.stateDirectory);
  expect(text).not.toContain("host secret");
  // in its own cgroup namespace every path is the root
  expect(text.match(/^\d+:[^:]*:\/.+$/gm)).toBeNull();
});

test("a set-user-ID program that a sandbox leaves on the host's disk is out of the reach of every user of the host", async () => {
  const script =
    "cp /usr/bin/id /work/id; chown 0:0 /work/id; chmod 6755 /work/id; setpriv --reuid 65534 --regid 65534 --clear-groups /work/id";
  const { sandbox, stdout } = await runKept(host.launcher, shell(script));
  // inside, the mount is deaf to it
  expect(stdout.toString()).toBe("uid=65534(nobody) gid=65534(nogroup) groups=65534(nogroup)\n");
  const path = join(host.stateDirectory, "sandboxes", sandbox.id, "upper/work/id");
  expect(statSync(path).mode & 0o7777).toBe(0o6755);
  for (const folder of [host.stateDirectory, join(host.stateDirectory, "sandboxes")])
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(() => execFileSync(path, { uid: 65_534, gid: 65_534 })).toThrow("EACCES");
  await sandbox.destroy();
});

test("root of a sandbox that changed, gave away and removed what it could has changed nothing of the host", async () => {
  const input = join(scratch, "input");
  writeFileSync(input, "the host's", { mode: 0o600 });
  chownSync(input, 1000, 1000);
  const seen = () =>
    ["/usr", "/usr/bin", "/usr/bin/id", "/etc/passwd", "/dev/null", input].map((path) => {
      const { mode, uid, gid, ino, size, mtimeMs } = statSync(path);
      return [path, mode, uid, gid, ino, size, mtimeMs];
    });
  const before = seen();
  const script = `
    exec 2>/dev/null
    for path in /usr /usr/bin /usr/bin/id /etc/passwd /dev/null /input; do
      chown 1000:1000 $path; chmod 4777 $path; echo planted >> $path; touch -d 2001-01-01 $path; rm -f $path; rmdir $path; done
    kill -9 -1`;
  await run(host.launcher, shell(script), { mounts: [{ source: input, target: "/input" }] });
  expect(seen()).toEqual(before);
  expect(readFileSync(input, "utf8")).toBe("the host's");
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
