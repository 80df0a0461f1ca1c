/** What a trace's labels say that metrics need: an import's source knows what should have been done. */
import type { GoldCall } from "#trace/metrics/tool-calls.ts";
import { canonicalExact, isNumber, partOf, type Value, valueOfText } from "#trace/query/value.ts";

export type Labels = {
  /** `expected_actions: [{tool | name, args | arguments}]`; null where the source names none. */
  gold: GoldCall[] | null;
  /** `expected_steps: ["name", …]`. */
  goldSteps: string[] | null;
  /** `read_only_tools` and `state_changing_tools`, lists of names. */
  readOnly: Set<string> | null;
  stateChanging: Set<string> | null;
  /** `task_id` of any kind: what several attempts have in common. */
  task: string | null;
  /** `success: true | false`, where the source says so itself. */
  success: boolean | null;
};

export function labelsOf(json: string | null): Labels {
  const labels = valueOfText(json);
  const success = partOf(labels, "success");
  return {
    gold: goldOf(partOf(labels, "expected_actions")),
    goldSteps: namesIn(partOf(labels, "expected_steps")),
    readOnly: setOf(partOf(labels, "read_only_tools")),
    stateChanging: setOf(partOf(labels, "state_changing_tools")),
    task: taskOf(partOf(labels, "task_id")),
    success: typeof success === "boolean" ? success : null,
  };
}

/** Whether tools only read: as their calls say, and as answers show where no one says. */
export type KnownTools = {
  declared: ReadonlyMap<string, boolean>;
  observed: ReadonlyMap<string, boolean> | null;
};

/** Whether nobody says of one of the calls, expected or made, whether its tool changes state. */
export function isUnsettled(
  given: ReadonlySet<string> | null,
  { gold, readOnly, stateChanging }: Labels,
  declared: ReadonlyMap<string, boolean>,
  made: readonly { tool: string | null }[],
): boolean {
  if (gold === null || given !== null || stateChanging !== null) return false;
  return [...gold, ...made].some(
    ({ tool }) => tool !== null && !declared.has(tool) && !(readOnly?.has(tool) ?? false),
  );
}

/**
 * Whether a call of the tool counts as one that changes state: as the caller says, as the tool declared itself in this trace,
 * as the labels say; where nobody does, as answers show, and where they show nothing, it counts.
 */
export function stateChangingBy(
  given: ReadonlySet<string> | null,
  { readOnly, stateChanging }: Pick<Labels, "readOnly" | "stateChanging">,
  { declared, observed }: KnownTools,
): (tool: string) => boolean {
  return (tool) => {
    if (given !== null) return given.has(tool);
    const declaredReadOnly = declared.get(tool);
    if (declaredReadOnly !== undefined) return !declaredReadOnly;
    if (stateChanging !== null) return stateChanging.has(tool);
    if (readOnly !== null) return !readOnly.has(tool);
    return !(observed?.get(tool) ?? false);
  };
}

function goldOf(actions: Value): GoldCall[] | null {
  if (!Array.isArray(actions)) return null;
  return actions.flatMap((action) => {
    const tool = partOf(action, "tool") ?? partOf(action, "name");
    const given = partOf(action, "args") ?? partOf(action, "arguments") ?? {};
    return typeof tool === "string" ? [{ tool, arguments_json: canonicalExact(given) }] : [];
  });
}

function taskOf(value: Value): string | null {
  return typeof value === "string" || isNumber(value) ? String(value) : null;
}

function namesIn(value: Value): string[] | null {
  return Array.isArray(value) ? value.filter((name) => typeof name === "string") : null;
}

function setOf(value: Value): Set<string> | null {
  const names = namesIn(value);
  return names === null ? null : new Set(names);
}
