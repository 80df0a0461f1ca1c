/**
 * One episode a line: `{"id", "steps": […], "reward"?, …}`. A step is `{kind: "user" | "assistant" | "system", content}`,
 * `{kind: "tool", tool, args, response}`, `{kind: "plan", name, state}`, `{kind: "memory", key, value}` or
 * `{kind: "reward", value}`; docs/trace-exchange.md has every member. What else the line says is kept as the trace's labels.
 */
import type { EventBody } from "#trace/events/event.ts";
import { ConversationBuilder, type ImportedTrace, type ImportOptions, wallUsOf } from "./imported.ts";
import { type JsonDocument, type JsonNode, memberOf, stringOf } from "./json-tree.ts";
import type { JsonRecord } from "./records.ts";
import { recordId } from "./trace-names.ts";

const SOURCE = "jsonl";

/** Whether a record is an episode, and not an event of `dsec trace export --format jsonl`. */
export function isEpisode(root: JsonNode): boolean {
  return memberOf(root, "steps")?.kind === "array";
}

/** @throws INVALID_REQUEST naming the record and the step */
export async function importEpisode(
  document: JsonDocument,
  record: JsonRecord,
  options: ImportOptions,
): Promise<ImportedTrace> {
  const steps = memberOf(document.root, "steps");
  if (steps?.kind !== "array") throw document.refused("it has no steps; expected {id, steps: […]}");
  const started = timeOf(document, document.root, ["started_at", "at"]);
  const first = steps.items.map((step) => timeOf(document, step, ["at"])).find((time) => time !== null);
  const episode = new Episode(document, started ?? first ?? 0, options);
  for (const [index, step] of steps.items.entries()) await episode.add(step, `step ${index + 1}`);
  const reward = memberOf(document.root, "reward");
  if (reward !== null) episode.reward(reward, "reward");
  return {
    header: {
      trace_id: recordId(document, ["id"], record.line),
      source: SOURCE,
      started_wall_us: started ?? first ?? 0,
      labels_json: labelsOf(document),
    },
    events: episode.builder.events,
  };
}

class Episode {
  readonly builder: ConversationBuilder;
  readonly #document: JsonDocument;
  readonly #memory = new Map<string, string>();
  /** Open plan steps, the innermost last. */
  readonly #open: { step: number; name: string }[] = [];
  #steps = 0;
  #version = 0;

  constructor(document: JsonDocument, startedWallUs: number, options: ImportOptions) {
    this.#document = document;
    this.builder = new ConversationBuilder(startedWallUs, options);
  }

  async add(step: JsonNode, at: string): Promise<void> {
    const kind = this.#text(step, "kind", at);
    const wallUs = timeOf(this.#document, step, ["at"]);
    switch (kind) {
      case "user":
      case "assistant":
      case "system":
      case "environment": {
        const content = memberOf(step, "content");
        const json = content === null ? '""' : this.#document.textOf(content);
        return this.builder.observe(kind, json, wallUs);
      }
      case "tool":
        return this.#call(step, at, wallUs);
      case "plan":
        return this.#plan(step, at, wallUs);
      case "memory":
        return this.#remember(step, at, wallUs);
      case "reward": {
        const value = memberOf(step, "value");
        if (value === null) throw this.#document.refused(`${at}, a reward, has no value`);
        return this.reward(value, at, wallUs);
      }
    }
    throw this.#document.refused(
      `${at} has kind ${JSON.stringify(kind).slice(0, 80)}; known are user, assistant, system, environment, tool, plan, memory, reward`,
    );
  }

  /** A number, or an object of components `{value, weight}`. */
  reward(node: JsonNode, at: string, wallUs: number | null = null): void {
    const given = node.kind === "object" ? node.members : [{ name: "reward", value: node }];
    const components = given.map(({ name, value }) => {
      const weight = value.kind === "object" ? memberOf(value, "weight") : null;
      const parts = {
        name,
        value: this.#number(value.kind === "object" ? memberOf(value, "value") : value, at),
        weight: weight === null ? 1 : this.#number(weight, at),
      };
      return { ...parts, product: parts.value * parts.weight };
    });
    const sum = components.reduce((total, { product }) => total + product, 0);
    this.builder.add({ type: "reward", components, sum, source: "import" }, wallUs);
  }

  async #call(step: JsonNode, at: string, start_us: number | null): Promise<void> {
    const tool = this.#text(step, "tool", at);
    const args = memberOf(step, "args") ?? memberOf(step, "arguments");
    const call = await this.builder.startCall({
      tool,
      arguments_json: args === null ? "{}" : this.#document.textOf(args),
      start_us,
      ...(this.#open.length > 0 ? { step: this.#open.at(-1)!.step } : {}),
    });
    const response = memberOf(step, "response");
    // a call that was never answered
    if (response === null && memberOf(step, "error") === null) return;
    const said = memberOf(step, "error");
    const text = response === null ? (stringOf(said) ?? "") : this.#textOf(response);
    const failed =
      said === null ? text.startsWith("Error") : !(said.kind === "literal" && said.value === false);
    const took = memberOf(step, "duration_ms");
    const duration_us = took === null ? null : Math.round(this.#number(took, at) * 1000);
    const end_us = start_us !== null && duration_us !== null ? start_us + duration_us : null;
    this.builder.endCall(call, { text, failed, duration_us, end_us });
  }

  #plan(step: JsonNode, at: string, wallUs: number | null): void {
    const name = this.#text(step, "name", at);
    const state = this.#text(step, "state", at);
    if (state === "begun") {
      const parent = this.#open.at(-1)?.step ?? null;
      this.#open.push({ step: ++this.#steps, name });
      this.builder.add({ type: "plan_step", state, step: this.#steps, name, parent }, wallUs);
      return;
    }
    const place = this.#open.findLastIndex((open) => open.name === name);
    if (state !== "ended" || place < 0) {
      throw this.#document.refused(
        `${at}: plan step ${JSON.stringify(name).slice(0, 80)} must be begun, then ended`,
      );
    }
    const [open] = this.#open.splice(place, 1);
    const status = stringOf(memberOf(step, "status")) ?? "succeeded";
    if (!isStatus(status)) {
      throw this.#document.refused(`${at}: status must be succeeded, failed, abandoned or timed_out`);
    }
    this.builder.add({ type: "plan_step", state, step: open!.step, name, status }, wallUs);
  }

  #remember(step: JsonNode, at: string, wallUs: number | null): void {
    const key = this.#text(step, "key", at);
    const namespace = stringOf(memberOf(step, "namespace")) ?? "memory";
    const value =
      step.kind === "object" ? step.members.find(({ name }) => name === "value")?.value : undefined;
    const place = JSON.stringify([namespace, key]);
    const old = this.#memory.get(place);
    const value_json = value === undefined ? undefined : this.#document.textOf(value);
    if (value_json === undefined) this.#memory.delete(place);
    else this.#memory.set(place, value_json);
    this.builder.add(
      {
        type: "memory_write",
        op: value_json === undefined ? "delete" : "put",
        namespace,
        key,
        old: old === undefined ? null : { value_json: old },
        new: value_json === undefined ? null : { value_json },
        version: ++this.#version,
        origin: stringOf(memberOf(step, "origin")),
      },
      wallUs,
    );
  }

  #text(step: JsonNode, name: string, at: string): string {
    const text = stringOf(memberOf(step, name));
    if (text === null || text === "") throw this.#document.refused(`${at} has no ${name}`);
    return text;
  }

  #textOf(node: JsonNode): string {
    return node.kind === "string" ? node.value : this.#document.textOf(node);
  }

  #number(node: JsonNode | null, at: string): number {
    const value = node?.kind === "number" ? Number(this.#document.textOf(node)) : Number.NaN;
    if (!Number.isFinite(value))
      throw this.#document.refused(`${at}: a reward, weight or duration is no number`);
    return value;
  }
}

type Status = Extract<EventBody<"plan_step">["status"], string>;

function isStatus(text: string): text is Status {
  return ["succeeded", "failed", "abandoned", "timed_out"].includes(text);
}

function timeOf(document: JsonDocument, node: JsonNode, names: string[]): number | null {
  for (const name of names) {
    const member = memberOf(node, name);
    if (member?.kind === "string" || member?.kind === "number") {
      const wallUs = wallUsOf(document.valueOf(member));
      if (wallUs === null) throw document.refused(`${name} is no time: give ISO 8601 or seconds since 1970`);
      return wallUs;
    }
  }
  return null;
}

function labelsOf({ root, text }: JsonDocument): string | null {
  if (root.kind !== "object") return null;
  const parts = root.members
    .filter(({ name }) => name !== "steps")
    .map(({ name, value }) => `${JSON.stringify(name)}:${text.slice(value.start, value.end)}`);
  return parts.length === 0 ? null : `{${parts.join(",")}}`;
}
