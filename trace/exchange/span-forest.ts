/**
 * The order in which spans become steps. Steps nest and spans need not: they overlap, outlive their parents, begin before them,
 * name a parent that is not there, or go round in circles. Each parent's children follow one another by their beginnings,
 * within it.
 */

export type PlacedSpan = {
  id: string | null;
  parentId: string | null;
  /** Null where the source has no time. */
  startUs: number | null;
};

export type Visit = {
  /** Where the span stands among those that were given. */
  place: number;
  state: "begun" | "ended";
  /** Place of the span around it. */
  parent: number | null;
  /** When the span begins that follows this end: the end is told no later. */
  nextStartUs: number | null;
};

/** Each span's beginning and end, once. */
export function visitsOf(spans: readonly PlacedSpan[]): Visit[] {
  const { roots, children } = treesOf(spans);
  const visits: Visit[] = [];
  const pending: Visit[] = [];
  const push = (places: readonly number[], parent: number | null) => {
    for (const place of places.toReversed()) {
      pending.push({ place, state: "begun", parent, nextStartUs: null });
    }
  };
  push(roots, null);
  for (let visit = pending.pop(); visit !== undefined; visit = pending.pop()) {
    visits.push(visit);
    if (visit.state === "ended") continue;
    pending.push({ ...visit, state: "ended" });
    push(children.get(visit.place) ?? [], visit.place);
  }
  let nextStartUs: number | null = null;
  for (const visit of visits.toReversed()) {
    if (visit.state === "begun") nextStartUs = spans[visit.place]!.startUs;
    else visit.nextStartUs = nextStartUs;
  }
  return visits;
}

/** Who stands at the top, and who within whom, by their beginnings. */
function treesOf(spans: readonly PlacedSpan[]) {
  const placeOf = new Map<string, number>();
  for (const [place, { id }] of spans.entries()) {
    // of two with one id the first has the children
    if (id !== null && !placeOf.has(id)) placeOf.set(id, place);
  }
  const inOrder = [...spans.keys()].sort(
    (one, other) => (spans[one]!.startUs ?? 0) - (spans[other]!.startUs ?? 0) || one - other,
  );
  const children = new Map<number, number[]>();
  const roots = new Set<number>();
  for (const place of inOrder) {
    const { parentId } = spans[place]!;
    const parent = parentId === null ? undefined : placeOf.get(parentId);
    if (parent === undefined) roots.add(place);
    else if (children.has(parent)) children.get(parent)!.push(place);
    else children.set(parent, [place]);
  }
  const reached = new Set<number>();
  const reach = (from: number) => {
    const pending = [from];
    for (let place = pending.pop(); place !== undefined; place = pending.pop()) {
      reached.add(place);
      // not spread: there may be more children than a call takes arguments
      for (const child of children.get(place) ?? []) if (!reached.has(child)) pending.push(child);
    }
  };
  for (const root of roots) reach(root);
  for (const place of inOrder) {
    if (reached.has(place)) continue;
    // A circle: it is cut above its first span.
    const parent = placeOf.get(spans[place]!.parentId!)!;
    children.set(
      parent,
      children.get(parent)!.filter((child) => child !== place),
    );
    roots.add(place);
    reach(place);
  }
  return { roots: inOrder.filter((place) => roots.has(place)), children };
}
