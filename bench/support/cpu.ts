import { readdirSync, readFileSync } from "node:fs";

/** What the processes have used of processors so far, in ms (proc_pid_stat(5), utime and stime in 1/100 s). */
export function cpuMs(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids) {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks * 10;
}

/** The gateway and the executor over a folder of data. */
export function processesOf(folder: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const words = argumentsOf(pid);
      return /cli\/main\.ts (gateway|executor)/.test(words) && words.includes(folder);
    });
}

function argumentsOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    // it ended meanwhile
    return "";
  }
}
