import { mkdir } from "node:fs/promises";
import { join } from "node:path";

/** The folders of an executor in its data folder, each private. */
export async function makeDirectories(dataDirectory: string) {
  const directories = {
    launcher: join(dataDirectory, "launcher"),
    attempts: join(dataDirectory, "attempts"),
    places: join(dataDirectory, "places"),
    artifacts: join(dataDirectory, "artifacts"),
    traces: join(dataDirectory, "traces"),
  };
  for (const path of [dataDirectory, ...Object.values(directories)]) {
    await mkdir(path, { recursive: true, mode: 0o700 });
  }
  return directories;
}
