/**
 * Groups of failed traces that are alike: DBSCAN (Ester and others, 1996) on the exact Jaccard distance of their features, such as
 * `shipping_status=null`. What sets a group apart is its lift against the traces that succeeded.
 */
import { LIMITS } from "#core/limits.ts";

export type Cluster = {
  label: string;
  size: number;
  /** Files of its members, the first of them. */
  traces: string[];
  /** The features that set it apart, the most telling first. */
  features: ClusterFeature[];
};

export type ClusterFeature = {
  feature: string;
  /** Members of the cluster, and successful traces, that have it. */
  in_cluster: number;
  in_successful: number;
  /** Its share here over its share in successful traces, with half a trace added to each count. */
  lift: number;
};

export type Clustering = {
  clusters: Cluster[];
  /** Failures that are like too few others. */
  noise: number;
  failed: number;
  successful: number;
  /** Failures beyond the bound, which were not compared. */
  left_out: number;
};

/** `group`: the task; several attempts at one share what is its own, which says nothing of why they failed. */
export type Featured = { file: string; group: string; features: ReadonlySet<string> };

export type ClusterOptions = {
  /** Largest Jaccard distance of neighbours. */
  epsilon?: number;
  /** Neighbours, itself included, that make a trace the core of a cluster. */
  leastNeighbours?: number;
};

export function cluster(
  failed: readonly Featured[],
  successful: readonly Featured[],
  { epsilon = 0.5, leastNeighbours = 3 }: ClusterOptions = {},
): Clustering {
  const compared = failed.slice(0, LIMITS.clusteredTraces);
  const telling = tellingFeatures([...compared, ...successful]);
  const sets = compared.map(
    ({ features }) => new Set([...features].filter((feature) => telling.has(feature))),
  );
  const groups = dbscan(sets, epsilon, leastNeighbours);
  const clusters = groups.map((members) =>
    describe(
      members.map((at) => compared[at]!),
      successful,
      telling,
    ),
  );
  clusters.sort((one, other) => other.size - one.size);
  const grouped = groups.reduce((sum, members) => sum + members.length, 0);
  return {
    clusters,
    noise: compared.length - grouped,
    failed: failed.length,
    successful: successful.length,
    left_out: failed.length - compared.length,
  };
}

/** Places of the members of each group, in the order in which the groups were come by. */
function dbscan(sets: readonly ReadonlySet<string>[], epsilon: number, leastNeighbours: number): number[][] {
  // Many failures are the same: each different set is compared once.
  const { distinct, membersOf } = distinctSets(sets);
  const neighbours = distinct.map((set) =>
    distinct.flatMap((other, at) => (jaccardDistance(set, other) <= epsilon ? [at] : [])),
  );
  const weight = (places: readonly number[]) =>
    places.reduce((sum, place) => sum + membersOf[place]!.length, 0);
  const isCore = neighbours.map((places) => weight(places) >= leastNeighbours);
  const seen = new Array<boolean>(distinct.length).fill(false);
  const groups: number[][] = [];
  for (let start = 0; start < distinct.length; start++) {
    if (seen[start] || !isCore[start]) continue;
    seen[start] = true;
    const pending = [start];
    const group: number[] = [];
    for (let place = pending.pop(); place !== undefined; place = pending.pop()) {
      group.push(...membersOf[place]!);
      if (!isCore[place]) continue;
      for (const next of neighbours[place]!) {
        if (seen[next]) continue;
        seen[next] = true;
        pending.push(next);
      }
    }
    groups.push(group.sort((one, other) => one - other));
  }
  return groups;
}

function distinctSets(sets: readonly ReadonlySet<string>[]) {
  const places = new Map<string, number>();
  const distinct: ReadonlySet<string>[] = [];
  const membersOf: number[][] = [];
  for (const [at, set] of sets.entries()) {
    const name = JSON.stringify([...set].sort());
    let place = places.get(name);
    if (place === undefined) {
      place = distinct.push(set) - 1;
      places.set(name, place);
      membersOf.push([]);
    }
    membersOf[place]!.push(at);
  }
  return { distinct, membersOf };
}

/** 1 − |A∩B|/|A∪B|; two empty sets are the same. */
export function jaccardDistance(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  const [small, large] = a.size < b.size ? [a, b] : [b, a];
  let shared = 0;
  for (const feature of small) if (large.has(feature)) shared++;
  const union = a.size + b.size - shared;
  return union === 0 ? 0 : 1 - shared / union;
}

function describe(
  members: readonly Featured[],
  successful: readonly Featured[],
  telling: ReadonlySet<string>,
): Cluster {
  const inCluster = countFeatures(members);
  const inSuccessful = countFeatures(successful);
  const features = [...inCluster]
    // Half of a group at least should have what it is named by.
    .filter(([feature, count]) => telling.has(feature) && 2 * count >= members.length)
    .map(([feature, in_cluster]): ClusterFeature => {
      const in_successful = inSuccessful.get(feature) ?? 0;
      const here = (in_cluster + 0.5) / (members.length + 1);
      const there = (in_successful + 0.5) / (successful.length + 1);
      return { feature, in_cluster, in_successful, lift: here / there };
    })
    .sort((one, other) => other.lift - one.lift || other.in_cluster - one.in_cluster);
  const lifted = features.filter(({ lift }) => lift > 1).slice(0, MOST_FEATURES);
  const label = lifted.slice(0, 3).map(({ feature }) => feature);
  return {
    label: label.length === 0 ? "nothing that successful ones lack" : label.join(", "),
    size: members.length,
    traces: members.slice(0, MOST_TRACES).map(({ file }) => file),
    features: lifted,
  };
}

const MOST_FEATURES = 10;
const MOST_TRACES = 100;

/** What at least two tasks have, and not all traces: the rest is a task's own or says nothing. */
export function tellingFeatures(traces: readonly Featured[]): Set<string> {
  const groups = new Map<string, Set<string>>();
  for (const { features, group } of traces) {
    for (const feature of features) groups.set(feature, (groups.get(feature) ?? new Set()).add(group));
  }
  const counts = countFeatures(traces);
  const telling = [...groups].filter(([feature, of]) => of.size > 1 && counts.get(feature)! < traces.length);
  return new Set(telling.map(([feature]) => feature));
}

export function countFeatures(traces: readonly Featured[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { features } of traces)
    for (const feature of features) counts.set(feature, (counts.get(feature) ?? 0) + 1);
  return counts;
}
