/** What is on disk only for a while goes, whichever way the process ends but by being killed. */
const removals = new Set<() => void>();

process.on("exit", () => {
  for (const remove of removals) {
    try {
      remove();
    } catch {
      // nobody is left to be told
    }
  }
});

/** Does the work and removes what it needed; where the process ends within the work, it is removed then. */
export async function removedAfter<T>(remove: () => void, work: () => Promise<T>): Promise<T> {
  removals.add(remove);
  try {
    return await work();
  } finally {
    removals.delete(remove);
    remove();
  }
}
