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

/** Warnings and errors in a line each, for people. What is routine is left out. */
export function plainLog(): Log {
  const paint = paintFor(process.stderr);
  return (event) => {
    if (event.level === "info") return;
    const label = event.level === "error" ? paint("red", "error") : paint("yellow", "warning");
    process.stderr.write(`${label}: ${plainLine(describe(event))}\n`);
  };
}

function describe({ level: _, message, ...fields }: Event): string {
  const rest = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return rest.length > 0 ? `${message} (${rest.join(", ")})` : message;
}
