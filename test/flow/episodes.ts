/** The recorded airline episodes, as test data beside the checkout. */
import { readFileSync } from "node:fs";
import { sharedPath } from "#test/support/shared.ts";

export type ToolStep = { kind: "tool"; tool: string; args: Record<string, unknown>; response: string };
export type Episode = {
  id: string;
  expected_actions: { tool: string; args: Record<string, unknown> }[];
  steps: (ToolStep | { kind: "user" | "assistant"; content: string })[];
};

/** Null where the data is not there, which `sharedPath` has told by then. */
export const EPISODES: Episode[] | null = read();

export function toolSteps({ steps }: Episode): ToolStep[] {
  return steps.filter((step) => step.kind === "tool");
}

function read(): Episode[] | null {
  const path = sharedPath("data/tau-airline/episodes.jsonl");
  if (path === null) return null;
  const lines = readFileSync(path, "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Episode);
}
