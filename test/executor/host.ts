/** Looks at the host, not at what a sandbox says of itself. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** Pids of processes whose command line holds the text; only children of `parent` where that is given. */
export function processesWith(text: string, parent?: number): Promise<number[]> {
  return processes((commandLine) => commandLine.includes(text), parent);
}

/** Pids of processes whose command line starts with the text: the program itself, not a shell that is to run it. */
export function processesOf(text: string): Promise<number[]> {
  return processes((commandLine) => commandLine.startsWith(text));
}

async function processes(matches: (commandLine: string) => boolean, parent?: number): Promise<number[]> {
  const found: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const [commandLine, status] = await Promise.all(
      ["cmdline", "status"].map((file) => readFile(`/proc/${name}/${file}`, "utf8").catch(() => "")),
    );
    if (!matches(commandLine!.replaceAll("\0", " "))) continue;
    if (parent !== undefined && Number(/^PPid:\s+(\d+)$/m.exec(status!)?.[1]) !== parent) continue;
    found.push(Number(name));
  }
  return found;
}

/** Cgroups below every mounted hierarchy whose name holds the text. */
export async function cgroupsWith(text: string): Promise<string[]> {
  const found: string[] = [];
  const pending = ["/sys/fs/cgroup"];
  while (pending.length > 0) {
    const folder = pending.pop()!;
    for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
      if (!entry.isDirectory()) continue;
      const path = join(folder, entry.name);
      if (entry.name.includes(text)) found.push(path);
      pending.push(path);
    }
  }
  return found;
}

/** Mounts of this namespace whose line in mountinfo holds the text (proc(5)). */
export async function mountsWith(text: string): Promise<string[]> {
  return (await readFile("/proc/self/mountinfo", "utf8")).split("\n").filter((line) => line.includes(text));
}
