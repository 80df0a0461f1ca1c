/** One line on an event, for people. It is made of what was recorded, so it is untrusted text. */
import type { Shown, TraceEvent } from "#trace/events/event.ts";

/** @param tool of the call that the event belongs to, where it does not say so itself */
export function summaryOf(event: TraceEvent, tool: string | null = null): string {
  switch (event.type) {
    case "tool_call_start": {
      const what =
        event.tool ?? [event.kind, event.method, event.url].filter((part) => part !== null).join(" ");
      return `${what} ${cut(event.arguments_json ?? "")}`.trim();
    }
    case "tool_call_end": {
      const { state, is_error, code, text, stderr, status, answer } = event;
      const how = [state, is_error === true ? "is_error" : null, code, status].filter(
        (part) => part !== null,
      );
      const what =
        text ?? stderr ?? answer?.output_json ?? (answer?.body ? `${answer.body.length} bytes` : "");
      return `${tool ?? "call"} ${how.join(" ")} in ${milliseconds(event.duration_us)}: ${cut(what)}`;
    }
    case "tool_call_late":
      return `${tool ?? "call"} ${event.state} ${milliseconds(event.late_us)} late`;
    case "plan_step":
      return [event.name, event.state, event.status, event.detail_json]
        .filter((part) => part !== null)
        .join(" ");
    case "context":
      return cut(event.context_json);
    case "observation":
      return `${event.source ?? "observation"} ${event.state}: ${cut(event.content_json ?? "")}`;
    case "message":
      return `${event.op} ${event.channel} (${event.items.length} messages)`;
    case "process": {
      const facts = [event.exit_code, event.signal, event.reason].filter((part) => part !== null);
      return `${event.state} ${cut(event.argv.join(" "))} ${facts.join(" ")}`.trim();
    }
    case "output":
      return `${event.stream}: ${cut(decoder.decode(event.data))}`;
    case "snapshot":
      return `snapshot ${event.snapshot}, levels ${event.levels}, in ${milliseconds(event.duration_us)}`;
    case "rollback":
      return `back to snapshot ${event.snapshot}: ${cut(event.reason)}`;
    case "memory_read":
      return `${event.op} ${event.key}: ${shown(event.old)}`;
    case "memory_write":
      return `${event.op} ${event.key}: ${shown(event.old)} → ${shown(event.new)}`;
    case "memory_snapshot":
      return `version ${event.version}: ${cut(event.entries_json)}`;
    case "token_logit":
      return `${event.tokens.length} tokens: ${cut(event.tokens.map(({ text, id }) => text ?? `#${id}`).join(""))}`;
    case "completion":
      return `${event.model ?? "model"}: ${event.prompt_tokens ?? "?"} + ${event.completion_tokens ?? "?"} tokens, ${event.finish_reason ?? "no reason"}`;
    case "reward": {
      const parts = event.components.map(({ name, value, weight }) => `${name} ${value}×${weight}`);
      return `${event.sum} = ${parts.join(" + ")}`;
    }
    case "error":
      return `${event.code}: ${cut(event.text)}`;
  }
}

const MOST = 240;
const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

function cut(text: string): string {
  return text.length > MOST ? `${text.slice(0, MOST).toWellFormed()}… (${text.length})` : text;
}

function shown(value: Shown | null): string {
  if (value === null) return "nothing";
  return value.value_json === null ? `${value.bytes} bytes` : cut(value.value_json);
}

function milliseconds(us: number): string {
  return us < 1000 ? `${us} µs` : `${(us / 1000).toFixed(1)} ms`;
}
