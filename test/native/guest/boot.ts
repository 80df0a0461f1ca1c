/**
 * npm run test:guest [-- KERNEL_PACKAGE [TEST_FILE]...]
 *
 * Boots a Debian kernel (linux-image-amd64 unless another package is named) in an emulated machine that has cgroup v2
 * alone, and runs the launcher's tests in it, on this checkout, as a bare Debian host would. The kernel package is
 * fetched once into build/guest. Exits with the tests' status.
 */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeInitramfs } from "./initramfs.ts";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const CACHE = join(ROOT, "build/guest");
const DISK = "4G";
const MEMORY = "3G";

const [kernelPackage = "linux-image-amd64", ...files] = process.argv.slice(2);
process.exitCode = await boot(kernelPackage, files);

async function boot(kernelPackage: string, files: string[]): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "dsec-guest-"));
  try {
    execFileSync("make", ["--silent", "-C", join(ROOT, "native"), "all", "check"], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    const kernelFolder = fetchKernel(kernelPackage);
    writeFileSync(join(folder, "initramfs"), makeInitramfs(kernelFolder, buildInit(folder)));
    execFileSync("mkfs.ext4", ["-q", join(folder, "disk"), DISK]);
    return await emulate(
      [
        ["-machine", "q35", "-cpu", "max", "-smp", "2", "-m", MEMORY],
        ["-accel", "tcg,thread=multi"],
        ["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"],
        ["-kernel", only(`${kernelFolder}/boot/vmlinuz-*`), "-initrd", join(folder, "initramfs")],
        // what follows -- are the arguments of pid 1
        [
          "-append",
          `console=ttyS0 quiet panic=-1 -- /bin/sh ${ROOT}test/native/guest/inside.sh ${files.join(" ")}`,
        ],
        ["-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"],
        ["-drive", `file=${join(folder, "disk")},format=raw,if=virtio,cache=unsafe`],
      ].flat(),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The folder of an unpacked kernel package; a name such as linux-image-amd64 stands for the newest that it depends on. */
function fetchKernel(name: string): string {
  const depends = execFileSync("apt-cache", ["depends", "--important", name], { encoding: "utf8" });
  const image = /Depends: (linux-image-\d\S+)/.exec(depends)?.[1] ?? name;
  const folder = join(CACHE, image);
  if (existsSync(folder)) return folder;
  const download = join(CACHE, "download");
  rmSync(download, { recursive: true, force: true });
  mkdirSync(download, { recursive: true });
  execFileSync("apt-get", ["-q", "download", image], {
    cwd: download,
    stdio: ["ignore", "ignore", "inherit"],
  });
  execFileSync("dpkg", ["-x", only(`${download}/*.deb`), `${folder}.new`]);
  execFileSync("mv", [`${folder}.new`, folder]);
  rmSync(download, { recursive: true });
  return folder;
}

function buildInit(folder: string): Buffer {
  const program = join(folder, "init");
  const source = fileURLToPath(new URL("init.cc", import.meta.url));
  execFileSync("g++", [
    "-std=c++20",
    "-O1",
    "-static",
    "-s",
    "-Wall",
    "-Wextra",
    "-Werror",
    source,
    "-o",
    program,
  ]);
  return readFileSync(program);
}

/** The status that init.cc prints last; 1 where the guest ended without it. */
function emulate(args: string[]): Promise<number> {
  const machine = spawn("qemu-system-x86_64", args, { stdio: ["ignore", "pipe", "inherit"] });
  let tail = "";
  machine.stdout.setEncoding("utf8").on("data", (text: string) => {
    process.stdout.write(text);
    tail = (tail + text).slice(-1000);
  });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  machine.on("error", (cause) => {
    reject(
      new Error("cannot start the emulator: apt-get install --no-install-recommends qemu-system-x86", {
        cause,
      }),
    );
  });
  machine.on("close", () => resolve(Number(/^guest: ended with (\d+)/m.exec(tail)?.[1] ?? 1)));
  return promise;
}

function only(pattern: string): string {
  const [path, ...more] = globSync(pattern);
  if (path === undefined || more.length > 0)
    throw new Error(`${pattern} names ${more.length + (path ? 1 : 0)} files`);
  return path;
}
