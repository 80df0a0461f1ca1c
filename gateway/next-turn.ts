/** Runs the work once the I/O that is already there has been handled, and what it wrote has left. */
export const nextTurn: (work: () => void) => void =
  (globalThis as { setImmediate?: (work: () => void) => unknown }).setImmediate ??
  ((work) => void setTimeout(work, 0));
