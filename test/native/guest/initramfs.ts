/** The guest's initial RAM disk: a pid 1 and the kernel modules it needs to reach the host's root and its own disk. */
import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";

/** What init.cc and the launcher use, each after what it needs but does not name as a dependency. */
const MODULES = [
  "virtio_pci",
  "virtio_blk",
  "9pnet_virtio",
  "9p",
  "crc32c_generic",
  "ext4",
  "overlay",
  "erofs",
  "loop",
];

/** `kernelFolder` is an unpacked Debian kernel package. */
export function makeInitramfs(kernelFolder: string, init: Uint8Array): Buffer {
  const modules = modulesWithDependencies(kernelFolder);
  const order = [...modules.keys()];
  return Buffer.concat([
    ...["dev", "modules"].map((name) => entry(name, 0o040755, Buffer.alloc(0))),
    // the kernel opens it for pid 1 before anything is mounted
    entry("dev/console", 0o020600, Buffer.alloc(0), { major: 5, minor: 1 }),
    entry("init", 0o100755, init),
    entry("modules/order", 0o100644, Buffer.from(order.map((name) => `${name}\n`).join(""))),
    ...order.map((name) => entry(`modules/${name}`, 0o100644, modules.get(name)!)),
    entry("TRAILER!!!", 0, Buffer.alloc(0)),
  ]);
}

/** Contents by name, dependencies first. What is built into the kernel has no file and is left out. */
function modulesWithDependencies(kernelFolder: string): Map<string, Buffer> {
  const paths = new Map(
    globSync(`${kernelFolder}/**/*.ko*`).map((path) => [
      moduleName(basename(path).replace(/\.ko.*/, "")),
      path,
    ]),
  );
  const modules = new Map<string, Buffer>();
  const add = (name: string) => {
    const path = paths.get(name);
    if (path === undefined || modules.has(name)) return;
    const content = path.endsWith(".xz")
      ? execFileSync("xz", ["-dc", path], { maxBuffer: 64 << 20 })
      : readFileSync(path);
    for (const dependency of dependenciesOf(content)) add(dependency);
    modules.set(name, content);
  };
  for (const name of MODULES) add(name);
  return modules;
}

/** From the `depends=` of the module's .modinfo section. */
function dependenciesOf(module: Buffer): string[] {
  const start = module.indexOf("\0depends=") + "\0depends=".length;
  const names = module.toString("latin1", start, module.indexOf(0, start));
  return names
    .split(",")
    .filter((name) => name !== "")
    .map(moduleName);
}

const moduleName = (text: string): string => text.replaceAll("-", "_");

let inode = 0;

/** One member of an archive in the "newc" form: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel. */
function entry(name: string, mode: number, content: Uint8Array, device = { major: 0, minor: 0 }): Buffer {
  const numbers = [
    ++inode,
    mode,
    0,
    0,
    1,
    0,
    content.length,
    0,
    0,
    device.major,
    device.minor,
    name.length + 1,
    0,
  ];
  const header = `070701${numbers.map((number) => number.toString(16).padStart(8, "0")).join("")}${name}\0`;
  return Buffer.concat([padded(Buffer.from(header)), padded(content)]);
}

function padded(bytes: Uint8Array): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)]);
}
