import { cpus, release, totalmem } from "node:os";

/** The machine a figure was taken on, in words. */
export function machine(): string {
  const processors = cpus();
  const memoryGib = Math.round(totalmem() / 2 ** 30);
  return `${processors.length} × ${processors[0]?.model.trim() ?? "unknown CPU"}, ${memoryGib} GiB, Linux ${release()}, Node ${process.versions.node}`;
}
