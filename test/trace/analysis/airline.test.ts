import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SHARED_FOLDER } from "#test/support/shared.ts";
import { ManyReportBuilder } from "#trace/analysis/many-report.ts";
import { MEASURE_DEFAULTS, measure } from "#trace/analysis/metrics.ts";
import { airlineTraces } from "../exchange/imports.ts";
import { AIRLINE, airlineTrace, STATE_CHANGING } from "./airline-traces.ts";

test.runIf(AIRLINE !== null)(
  "the 150 episodes are scored as a program written apart scores them, and accuracy goes with reward",
  async () => {
    const script = join(import.meta.dirname, "airline_reference.py");
    const episodes = join(SHARED_FOLDER, "data/tau-airline/episodes.jsonl");
    const reference = JSON.parse(execFileSync("python3", [script, episodes]).toString()) as {
      accuracy: Record<string, number>;
      success: Record<string, number | null>;
      spearman: number;
    };
    const report = new ManyReportBuilder({ clusterBy: "memory_state" });
    for (const episode of AIRLINE!) {
      const measured = await measure(await airlineTrace(episode), `${episode.id}.trace`, {
        ...MEASURE_DEFAULTS,
        stateChanging: STATE_CHANGING,
      });
      const { tool_call_accuracy, tool_call_success, error_rate } = measured.row.metrics;
      expect(tool_call_accuracy, episode.id).toBeCloseTo(reference.accuracy[episode.id]!, 12);
      const success = reference.success[episode.id]!;
      if (success === null) expect([tool_call_success, error_rate]).toEqual([null, null]);
      else {
        expect(tool_call_success).toBeCloseTo(success, 12);
        expect(error_rate).toBeCloseTo(1 - success, 12);
      }
      report.add(measured);
    }
    const { count, outcomes, correlations, hints, clustering, reward_shares } = await report.result();
    expect(count).toBe(150);
    expect(outcomes).toEqual({ succeeded: 63, failed: 87, unknown: 0 });
    const accuracy = correlations.find(({ metric }) => metric === "tool_call_accuracy")!;
    expect(accuracy.rho).toBeCloseTo(reference.spearman, 12);
    expect(accuracy.rho).toBeGreaterThan(0.85);
    expect(accuracy).toMatchObject({ n: 150, p: 1 / 10_000 });
    expect(hints[0]!.text).toMatch(
      /^tool_call_accuracy is associated with the reward .*n=150, adjusted p=0\.00/,
    );
    expect(hints.every(({ text, n }) => text.includes("associated with") && n >= 20)).toBe(true);
    expect(hints.some(({ text }) => /caus/.test(text))).toBe(false);
    expect(reward_shares).toEqual({ reward: expect.closeTo(1, 12) });
    const clustered = clustering!.clusters.reduce((sum, { size }) => sum + size, 0);
    expect(clustered + clustering!.noise).toBe(87);
    expect(clustering!.clusters.length).toBeGreaterThan(0);
  },
);

test.runIf(AIRLINE !== null)(
  "where nothing says which tools change state, they are those whose answers show it, and the report says so",
  async () => {
    const path = join(SHARED_FOLDER, "data/tau-airline/episodes.jsonl");
    const changing = [...STATE_CHANGING].filter((tool) => tool !== "send_certificate");
    const script = join(import.meta.dirname, "airline_reference.py");
    const reference = JSON.parse(execFileSync("python3", [script, path, ...changing]).toString());
    const report = new ManyReportBuilder({ clusterBy: null });
    for await (const segment of airlineTraces(path)) {
      report.add(await measure(segment, segment.header.trace_id, MEASURE_DEFAULTS));
    }
    const { correlations, traces, accuracy_note } = await report.result();
    for (const { trace_id, metrics } of traces) {
      expect(metrics.tool_call_accuracy, trace_id).toBeCloseTo(reference.accuracy[trace_id], 12);
    }
    const accuracy = correlations.find(({ metric }) => metric === "tool_call_accuracy")!;
    expect(accuracy.rho).toBeCloseTo(reference.spearman, 12);
    expect(accuracy.rho).toBeGreaterThan(0.8);
    // the one that is not seen answers with text
    expect(accuracy_note).toContain(`counts the calls of ${changing.join(", ")}: nothing says`);
  },
);

test.runIf(AIRLINE !== null)(
  "what an import was told of tools counts for its traces without a call too, and leaves nothing to be noted",
  async () => {
    const path = join(SHARED_FOLDER, "data/tau-airline/episodes.jsonl");
    const script = join(import.meta.dirname, "airline_reference.py");
    const reference = JSON.parse(execFileSync("python3", [script, path]).toString());
    const report = new ManyReportBuilder({ clusterBy: null });
    for await (const segment of airlineTraces(path, STATE_CHANGING)) {
      report.add(await measure(segment, segment.header.trace_id, MEASURE_DEFAULTS));
    }
    const { correlations, accuracy_note } = await report.result();
    const accuracy = correlations.find(({ metric }) => metric === "tool_call_accuracy")!;
    expect(accuracy.rho).toBeCloseTo(reference.spearman, 12);
    expect(accuracy_note).toBeNull();
  },
);
