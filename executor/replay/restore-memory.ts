import { DsecError } from "#core/errors.ts";
import type { TaskId } from "#core/ids.ts";
import type { Lease } from "#core/wire/leases.ts";
import { parseTree } from "#trace/exchange/json-tree.ts";
import type { Memory } from "../memory/memory.ts";
import { sandboxId } from "../plan.ts";
import type { Recording } from "./recording.ts";

/**
 * Makes the task's memory what it was when the recording began, each key with the lifetime that it had left. Before anybody
 * listens: it is not the agent that writes.
 */
export async function restoreMemory(
  memory: Pick<Memory, "view" | "state">,
  { file, memoryJson, memoryLifetimesMs }: Pick<Recording, "file" | "memoryJson" | "memoryLifetimesMs">,
  lease: Lease,
): Promise<void> {
  const identity = {
    ...{ taskId: lease.task_id as TaskId, sandboxId: sandboxId(lease), owner: lease.key_id, grants: [] },
  };
  const view = memory.view(identity);
  if ((await memory.state(view.namespace)).version > 0) await view.clear();
  if (memoryJson === null) return;
  const tree = parseTree(memoryJson);
  if (tree.kind !== "object")
    throw new DsecError("NOT_REPLAYABLE", `${file}: memory at the start is no JSON object`);
  for (const { name, value } of tree.members) {
    const ttlMs = memoryLifetimesMs.get(name) ?? null;
    await view.put(name, memoryJson.slice(value.start, value.end), { ttlMs });
  }
}
