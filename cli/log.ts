import type { GatewayPorts } from "#gateway/ports.ts";
import { paintFor, plainLine } from "./terminal.ts";

export type Log = GatewayPorts["log"];
type Event = Parameters<Log>[0];

/** One JSON object a line on standard error: for a service whose log is collected. */
export function jsonLog(): Log {
  return (event) => {
    process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), ...event })}\n`);
  };
}

/** How long a message that repeats stays quiet: what fails is often tried again at once. */
const REPEAT_EVERY_MS = 10_000;
const FIELD_CHARS = 200;

/** Warnings and errors in a line each, for people. What is routine is left out, and so is what was just said. */
export function plainLog(): Log {
  const paint = paintFor(process.stderr);
  const saidAtMs = new Map<string, number>();
  return (event) => {
    if (event.level === "info") return;
    const kind = `${event.message} ${event.route ?? ""}`;
    const nowMs = performance.now();
    if (nowMs - (saidAtMs.get(kind) ?? Number.NEGATIVE_INFINITY) < REPEAT_EVERY_MS) return;
    if (saidAtMs.size > 1000) saidAtMs.clear();
    saidAtMs.set(kind, nowMs);
    const label = event.level === "error" ? paint("red", "error") : paint("yellow", "warning");
    process.stderr.write(`${label}: ${plainLine(describe(event))}\n`);
  };
}

/** Of a stack trace its first line: the whole is in the JSON log. */
function describe({ level: _, message, ...fields }: Event): string {
  const rest = Object.entries(fields).flatMap(([name, value]) => {
    // Undefined where there is nothing to say; a log must not be what ends a service.
    const text = typeof value === "string" ? value.split("\n")[0] : JSON.stringify(value);
    return text === undefined ? [] : [`${name}=${text.slice(0, FIELD_CHARS)}`];
  });
  return rest.length > 0 ? `${message} (${rest.join(", ")})` : message;
}
