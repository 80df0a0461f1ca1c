/**
 * The rules of the Trace Event Format (the "JSON Object Format" of Google's document of that name) for the phases that an export
 * uses, and what Perfetto's importer drops or moves where they are not kept: times that are no numbers, slices of one thread that
 * overlap without one being within the other, metadata without a name, counters that are no numbers.
 */
type Slice = { tid: number; ts: number; end: number };

/** @throws naming the rule and the event that does not keep it */
export function checkChrome(document: Record<string, unknown>): void {
  const members = Object.keys(document).sort().join();
  must(members === "displayTimeUnit,metadata,traceEvents", "the members of the document", members);
  must(
    ["ms", "ns"].includes(document.displayTimeUnit as string),
    "displayTimeUnit is ms or ns",
    document.displayTimeUnit,
  );
  const slices: Slice[] = [];
  const named = new Set<unknown>();
  for (const event of document.traceEvents as Record<string, unknown>[]) {
    const { ph, ts, dur, tid, name } = event;
    const args = event.args as Record<string, unknown>;
    must(Number.isInteger(event.pid) && Number.isInteger(tid), "pid and tid are integers", event);
    must(typeof name === "string", "it has a name", event);
    must(typeof args === "object" && args !== null && !Array.isArray(args), "args is an object", event);
    must(ph === "M" || isTime(ts), "ts is a time in microseconds", event);
    if (ph === "X") {
      must(isTime(dur), "dur is a time in microseconds", event);
      slices.push({ tid: tid as number, ts: ts as number, end: (ts as number) + (dur as number) });
    } else if (ph === "i") {
      must(["t", "p", "g"].includes(event.s as string), "an instant is of a thread, a process or all", event);
    } else if (ph === "C") {
      must(
        Object.values(args).every((value) => typeof value === "number"),
        "counters are numbers",
        event,
      );
    } else {
      must(ph === "M", "the phase is one that an export uses", event);
      must(name === "process_name" || name === "thread_name", "metadata is a name", event);
      must(typeof args.name === "string", "a name is text", event);
      if (name === "thread_name") named.add(tid);
    }
  }
  for (const slice of slices) must(named.has(slice.tid), "each lane has a name", slice);
  checkNested(slices);
}

/** Of each thread the slices that are open make a stack. */
function checkNested(slices: readonly Slice[]): void {
  for (const lane of Map.groupBy(slices, ({ tid }) => tid).values()) {
    const open: Slice[] = [];
    for (const slice of lane.toSorted((one, other) => one.ts - other.ts || other.end - one.end)) {
      while (open.length > 0 && open.at(-1)!.end <= slice.ts) open.pop();
      const around = open.at(-1);
      must(around === undefined || slice.end <= around.end, "slices of a thread nest", [around, slice]);
      open.push(slice);
    }
  }
}

/** Since the recording began. */
function isTime(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function must(holds: boolean, rule: string, of: unknown): void {
  if (!holds) throw new Error(`${rule}: ${JSON.stringify(of).slice(0, 300)}`);
}
