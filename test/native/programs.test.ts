/** Programs that take root at its word, as they are on this host, in a sandbox. */
import { execFileSync } from "node:child_process";
import {
  chownSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run, shell, type TestLauncher, testLauncher } from "./sandboxes.ts";

let host: TestLauncher;
let scratch: string;
beforeAll(async () => {
  host = await testLauncher();
  scratch = mkdtempSync(join(tmpdir(), "dsec-programs-"));
});
afterAll(async () => {
  await host[Symbol.asyncDispose]();
  rmSync(scratch, { recursive: true });
});

/** What the script prints; it stops at the first command that fails, and says nothing on standard error. */
async function output(script: string): Promise<string> {
  const { stdout, stderr, end } = await run(host.launcher, shell(`set -eu\n${script}`));
  expect([stderr.toString(), end.reason, end.exitCode]).toEqual(["", "exited", 0]);
  return stdout.toString();
}

describe("root of a sandbox is root of its files", () => {
  test("it writes, changes and removes what belongs to another, and gives files away", async () => {
    const script = `
      umask 077; mkdir theirs; echo one > theirs/file; chown -R 1000:1001 theirs
      echo two >> theirs/file; cat theirs/file; chmod 4711 theirs/file; touch -d @0 theirs/file
      stat -c '%u %g %a %Y' theirs/file; mv theirs/file mine; rm -r theirs; chown www-data:shadow mine; stat -c '%U %G' mine`;
    expect(await output(script)).toBe("one\ntwo\n1000 1001 4711 0\nwww-data shadow\n");
  });

  test("it ends processes of another", async () => {
    const script = `
      setpriv --reuid 1000 --regid 1000 --clear-groups sleep 1000 & child=$!
      until grep -q '^Uid:.1000' /proc/$child/status; do :; done
      kill $child; wait $child || echo $?`;
    expect(await output(script)).toBe("143\n");
  });

  test("another user cannot do to root's files what root can do to theirs", async () => {
    const script = `
      umask 077; echo secret > own
      setpriv --reuid 1000 --regid 1000 --clear-groups sh -c '
        cat own; echo x > own; rm -f own; chown 1000 own; chmod 777 own; kill -9 1; touch /etc/planted' 2>/dev/null || true
      cat own; stat -c '%u %a' own; ls /etc/planted 2>/dev/null || echo none`;
    expect(await output(script)).toBe("secret\n0 600\nnone\n");
  });

  test("tar keeps owners, set-group-ID bits and links of what it packs and unpacks", async () => {
    const script = `
      mkdir -p in/sub; echo a > in/a; echo b > in/sub/b; ln in/a in/hard; ln -s a in/soft
      chown 1000:1000 in/a; chown 2000:42 in/sub/b; chmod 2755 in/sub/b; chown 33:33 in/sub
      tar cf in.tar in; mkdir out; tar xf in.tar -C out --numeric-owner
      cd out/in; stat -c '%n %u %g %a %h' a hard sub sub/b; readlink soft`;
    expect(await output(script)).toBe(
      "a 1000 1000 644 2\nhard 1000 1000 644 2\nsub 33 33 755 2\nsub/b 2000 42 2755 1\na\n",
    );
  });

  test("files of an image that belong to another are changed for this sandbox alone", async () => {
    const root = join(scratch, "root");
    mkdirSync(join(root, "home/user"), { recursive: true });
    mkdirSync(join(root, "bin"));
    const libraries = execFileSync("sh", ["-c", "ldd /bin/dash | grep -o '/[^ ]*'"], { encoding: "utf8" });
    for (const file of ["/bin/dash", ...libraries.trim().split("\n")]) {
      mkdirSync(join(root, file, ".."), { recursive: true });
      copyFileSync(file, join(root, file));
    }
    writeFileSync(join(root, "home/user/file"), "theirs\n", { mode: 0o600 });
    chownSync(join(root, "home/user/file"), 1000, 1000);
    const image = join(scratch, "image.erofs");
    execFileSync("mkfs.erofs", [image, root], { stdio: "ignore" });
    const before = readFileSync(image);
    const script =
      "read -r line < /home/user/file; echo $line; echo mine > /home/user/file; read -r l < /home/user/file; echo $l";
    for (let i = 0; i < 2; i++) {
      const { stdout, stderr } = await run(host.launcher, ["/bin/dash", "-c", script], {
        image: { kind: "erofs", path: image },
      });
      expect([stdout.toString(), stderr.toString()]).toEqual(["theirs\nmine\n", ""]);
    }
    expect(readFileSync(image).equals(before)).toBe(true);
  });
});

describe("accounts", () => {
  test("useradd, groupadd, usermod and userdel keep them", async () => {
    const script = `
      groupadd --gid 1500 crew; useradd --create-home --uid 1500 --gid crew --shell /bin/sh worker
      usermod --append --groups audio worker; id worker; stat -c '%U %G' /home/worker
      echo worker:word | chpasswd; grep -c '^worker:[$]' /etc/shadow
      userdel --remove worker 2>/dev/null; groupdel crew 2>/dev/null || true; id worker 2>/dev/null || ls /home`;
    expect(await output(script)).toBe(
      "uid=1500(worker) gid=1500(crew) groups=1500(crew),29(audio)\nworker crew\n1\n",
    );
  });

  test("su starts a command as another, who has no power of root's and no way back", async () => {
    const script = `
      useradd --create-home worker
      su worker -c 'id -un; touch ~/own; cat /etc/shadow || echo refused; su root -c id </dev/null || echo refused' 2>/dev/null
      su - worker -c 'pwd; grep CapEff /proc/self/status; ulimit -Hn'
      stat -c %U /home/worker/own`;
    const lines = (await output(script)).split("\n");
    expect(lines.slice(0, 5)).toEqual([
      "worker",
      "refused",
      "refused",
      "/home/worker",
      "CapEff:\t0000000000000000",
    ]);
    expect(Number(lines[5])).toBeGreaterThanOrEqual(1024);
    expect(lines[6]).toBe("worker");
  });

  test("those that every Debian has are there, locked, and none of the host's", async () => {
    const script =
      "cut -d: -f1 /etc/passwd | tr '\\n' ' '; cut -d: -f2 /etc/shadow | sort -u; pwck -r; grpck -r";
    const { stdout, stderr } = await run(host.launcher, shell(script));
    expect(stdout.toString()).toMatch(
      /^root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc _apt nobody \*\n/,
    );
    expect(stderr.toString()).toBe("");
  });
});

describe("packages", () => {
  /** Makes a package whose files lie outside /usr, which is the host's own and read-only. */
  const BUILD = `
    mkdir -p p/DEBIAN p/opt/greeting p/etc
    printf 'Package: greeting\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: nobody <nobody@example.org>\\nDescription: greets\\n' > p/DEBIAN/control
    printf '#!/bin/sh\\nset -e\\nchown www-data:www-data /opt/greeting/hello\\necho configured\\n' > p/DEBIAN/postinst
    chmod 755 p/DEBIAN/postinst; echo hello > p/opt/greeting/hello; echo set > p/etc/greeting.conf
    dpkg-deb --build --root-owner-group p greeting.deb >/dev/null`;

  test("dpkg installs one, runs its scripts, knows it and removes it", async () => {
    const script = `${BUILD}
      dpkg -i greeting.deb | tail -1
      cat /opt/greeting/hello; stat -c '%U' /opt/greeting/hello; dpkg -s greeting | grep ^Status; dpkg -S /opt/greeting/hello
      dpkg -r greeting >/dev/null 2>&1; ls /opt/greeting 2>/dev/null || echo gone`;
    expect(await output(script)).toBe(
      "configured\nhello\nwww-data\nStatus: install ok installed\ngreeting: /opt/greeting/hello\ngone\n",
    );
  });

  test("apt-get reads lists over HTTP as the user _apt, and installs what they name", async () => {
    const server = `
import http.server, os, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        port = ":%04X" % self.client_address[1]
        for line in open("/proc/net/tcp"):
            fields = line.split()
            if fields[1].endswith(port) and fields[1].startswith("0100007F"):
                open("/tmp/asked-by", "a").write(fields[7] + chr(10))
        super().do_GET()
    def log_message(self, *rest): pass
os.chdir("/work/repository")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8099), Handler)
open("/tmp/listens", "w")
server.serve_forever()`;
    const script = `${BUILD}
      mkdir repository; mv greeting.deb repository; cd repository
      { cat ../p/DEBIAN/control; echo "Filename: ./greeting.deb"; echo "Size: $(stat -c %s greeting.deb)"
        echo "SHA256: $(sha256sum greeting.deb | cut -d' ' -f1)"; } > Packages
      cat > /tmp/server.py <<'PYTHON'${server}
PYTHON
      python3 /tmp/server.py & until [ -e /tmp/listens ]; do sleep 0.05; done
      echo 'deb [trusted=yes] http://127.0.0.1:8099/ ./' > /etc/apt/sources.list
      apt-get -qq update
      apt-get -qq install -y greeting 2>&1 | grep configured
      cat /opt/greeting/hello; sort -u /tmp/asked-by; dpkg -l greeting | tail -1 | cut -c1-12`;
    expect(await output(script)).toBe("configured\nhello\n42\nii  greeting\n");
  });

  test("apt-get reads lists from a folder", async () => {
    const script = `${BUILD}
      mkdir -p /srv/repository; mv greeting.deb /srv/repository; cd /srv/repository
      { cat /work/p/DEBIAN/control; echo "Filename: ./greeting.deb"; echo "Size: $(stat -c %s greeting.deb)"
        echo "SHA256: $(sha256sum greeting.deb | cut -d' ' -f1)"; } > Packages
      echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list
      apt-get -qq update; apt-cache policy greeting | grep Candidate`;
    expect(await output(script)).toBe("  Candidate: 1.0\n");
  });
});

describe("settings that programs need", () => {
  test("Java runs, knows its certificate authorities and keeps a key store", async () => {
    const script = `
      java -version 2>&1 | grep -c Runtime
      keytool -genkeypair -alias own -keyalg EC -dname CN=own -storepass secret -keystore keys 2>/dev/null
      keytool -list -storepass secret -keystore keys | grep -c PrivateKeyEntry
      keytool -list -cacerts -storepass changeit 2>/dev/null | grep -c trustedCertEntry`;
    const [runs, keys, authorities] = (await output(script)).trim().split("\n").map(Number);
    expect([runs, keys]).toEqual([1, 1]);
    expect(authorities).toBeGreaterThan(10);
  });

  test("fonts, Perl's modules, OpenSSL and kinds of files are found", async () => {
    const script = `
      fc-list | grep -c . ; fc-match --format '%{family}\\n' sans-serif | grep -c .
      perl -MNet::Config -e 'print ref \\%NetConfig, "\\n"'
      openssl version -d; openssl req -new -newkey rsa:2048 -nodes -subj /CN=x -keyout /dev/null 2>/dev/null | head -1
      python3 -c 'import mimetypes; print(mimetypes.guess_type("a.epub")[0])'`;
    const lines = (await output(script)).trim().split("\n");
    expect(Number(lines[0])).toBeGreaterThan(0);
    expect(lines.slice(1)).toEqual([
      "1",
      "HASH",
      'OPENSSLDIR: "/usr/lib/ssl"',
      "-----BEGIN CERTIFICATE REQUEST-----",
      "application/epub+zip",
    ]);
  });
});
