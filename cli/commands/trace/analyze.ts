import { type Bottleneck, BottleneckAnalysis } from "#trace/analysis/bottleneck.ts";
import { readFacts } from "#trace/analysis/facts.ts";
import { type Heatmap, HeatmapAnalysis } from "#trace/analysis/heatmap.ts";
import { LatencyAnalysis, type LatencyRow } from "#trace/analysis/latency.ts";
import { MemoryLinkAnalysis, type MemoryLinks } from "#trace/analysis/memory-links.ts";
import { SizeAnalysis, type Sizes } from "#trace/analysis/sizes.ts";
import { type Command, examples, Option } from "../../program.ts";
import { byteCount, paintFor, plainLine, table } from "../../terminal.ts";
import { right } from "../../trace-report-text.ts";
import { LinePrinter, type NamedSegment, readSegments, recordedJson } from "../../trace-segments.ts";

/** One question about many traces: each is added, then the answer is given as JSON or as text. */
type Analysis = { add(named: NamedSegment): Promise<void>; result(): object; text(): string };

const ANALYSES = {
  latency: () => latency("duration_us"),
  serialization_time: () => latency("serialization_us"),
  size: sizes,
  bottleneck,
  tool_heatmap: toolHeatmap,
  memory_links: memoryLinks,
} satisfies Record<string, () => Analysis>;

type Metric = keyof typeof ANALYSES;
type Options = { metric: Metric; json?: boolean };

export function define(command: Command): void {
  command
    .argument("<file...>", "traces and trajectories, by path, folder or glob")
    .addOption(
      new Option("--metric <name>", "what to look at").choices(Object.keys(ANALYSES)).makeOptionMandatory(),
    )
    .action(run);
  examples(command, [
    ["what the time of calls is spent on", "dsec trace analyze traces/ --metric bottleneck"],
    ["how long each tool takes", "dsec trace analyze run.trace --metric latency"],
    ["what takes the room", "dsec trace analyze 'traces/*.trace' --metric size --json"],
    ["which calls read what others wrote", "dsec trace analyze run.trace --metric memory_links"],
  ]);
  command.addHelpText(
    "after",
    `
latency             p50, p90, p99 of calls by tool
serialization_time  the same of the time that messages on the channel took, with its share of the whole
size                bytes by section in the file, by type of event, and of arguments and answers by tool
bottleneck          calls' time by network, serialization, gateway, snapshot, CPU wait, throttling and GPU; what is
                    left is unexplained
tool_heatmap        calls by tool and plan step, or by tenth of the trace's time where it has no steps
memory_links        which tools' writes were read by which later calls, and what nobody read`,
  );
}

async function run(words: string[], options: Options): Promise<void> {
  const analysis: Analysis = ANALYSES[options.metric]();
  let traces = 0;
  await readSegments(words, "reading", async (named) => {
    await analysis.add(named);
    traces++;
    return "next";
  });
  const data = { metric: options.metric, traces, ...analysis.result() };
  await new LinePrinter().print(options.json ? recordedJson(data, 2) : analysis.text());
}

const paint = paintFor(process.stdout);

function latency(of: "duration_us" | "serialization_us"): Analysis {
  const analysis = new LatencyAnalysis((call) =>
    of === "duration_us" ? call.duration_us : (call.timing?.serialization_us ?? null),
  );
  return {
    add: async ({ segment }) => analysis.add((await readFacts(segment)).calls),
    result: () => ({ tools: analysis.result() }),
    text: () => latencyText(analysis.result(), of),
  };
}

function latencyText(rows: LatencyRow[], of: string): string {
  if (rows.length === 0) return `no call says its ${of}`;
  const columns = [
    { title: "TOOL" },
    ...right("CALLS", "P50 MS", "P90 MS", "P99 MS", "MAX MS", "ALL S", "SHARE"),
  ];
  const cells = rows.map(({ tool, count, sum, p50, p90, p99, max, share }) => [
    ...[plainLine(tool), String(count), ...[p50, p90, p99, max].map(milliseconds), (sum / 1e6).toFixed(2)],
    share === null ? "–" : percent(share),
  ]);
  const thinned = rows.find(({ every }) => every > 1);
  const note =
    thinned === undefined
      ? ""
      : `\npercentiles of ${plainLine(thinned.tool)} are of every ${thinned.every}th call`;
  return table(columns, cells) + note;
}

function sizes(): Analysis {
  const analysis = new SizeAnalysis();
  return {
    add: async ({ segment }) => analysis.add(segment, (await readFacts(segment)).calls),
    result: () => analysis.result(),
    text: () => sizesText(analysis.result()),
  };
}

function sizesText({ sections, types, tools }: Sizes): string {
  return [
    table(
      [{ title: "SECTION" }, ...right("BLOCKS", "EVENTS", "UNPACKED", "IN FILE")],
      sections.map(({ section, blocks, events, event_bytes, file_bytes }) => [
        ...[section, String(blocks), String(events), byteCount(event_bytes), byteCount(file_bytes)],
      ]),
    ),
    table(
      [{ title: "TYPE" }, ...right("EVENTS", "UNPACKED", "LARGEST")],
      types.map(({ type, events, event_bytes, largest_bytes }) => [
        ...[type, String(events), byteCount(event_bytes), byteCount(largest_bytes)],
      ]),
    ),
    table(
      [{ title: "TOOL" }, ...right("CALLS", "ARGUMENTS", "ANSWERS")],
      tools.map(({ tool, calls, in_bytes, out_bytes }) => [
        ...[plainLine(tool), String(calls), byteCount(in_bytes), byteCount(out_bytes)],
      ]),
    ),
  ].join("\n\n");
}

function bottleneck(): Analysis {
  const analysis = new BottleneckAnalysis();
  return {
    add: async ({ segment }) => analysis.add((await readFacts(segment)).calls),
    result: () => analysis.result(),
    text: () => bottleneckText(analysis.result()),
  };
}

function bottleneckText({ calls, timed, total_us, parts, largest, overlapping }: Bottleneck): string {
  if (largest === null) return `none of ${calls} calls says where its time went`;
  const biggest = parts[0]!;
  const rows = parts.map(({ part, us, share, known_calls }) => [
    ...[part, (us / 1e6).toFixed(3), percent(share), String(known_calls)],
  ]);
  const lines = [
    `${paint("bold", largest)} takes most: ${percent(biggest.share)} of ${(total_us / 1e6).toFixed(3)} s in ${timed} of ${calls} calls`,
    table([{ title: "PART" }, ...right("S", "SHARE", "CALLS")], rows),
  ];
  if (overlapping > 0) lines.push(`in ${overlapping} calls parts overlap, and add up to more than the whole`);
  return lines.join("\n");
}

function toolHeatmap(): Analysis {
  const analysis = new HeatmapAnalysis();
  return {
    add: async ({ segment }) => analysis.add(await readFacts(segment)),
    result: () => analysis.result(),
    text: () => heatmapText(analysis.result()),
  };
}

const SHADES = " ░▒▓█";

function heatmapText({ columns, rows, left_out }: Heatmap): string {
  if (rows.length === 0) return "no calls";
  const most = rows.reduce((so_far, { calls }) => Math.max(so_far, ...calls), 0);
  const shade = (count: number) => SHADES[count === 0 ? 0 : Math.max(1, Math.ceil((4 * count) / most))]!;
  const cells = rows.map(({ tool, calls, errors }) => [
    plainLine(tool),
    ...calls.map((count, at) => {
      const failed = errors[at]! > 0 ? `!${errors[at]}` : "";
      return count === 0 ? "" : `${shade(count)} ${count}${failed}`;
    }),
  ]);
  const titles = columns.map((name) => plainLine(name).slice(0, 16));
  const note = left_out > 0 ? `\n${left_out} calls are in further steps` : "";
  return `${table([{ title: "TOOL" }, ...right(...titles)], cells)}\n!n: so many of them erred${note}`;
}

function memoryLinks(): Analysis {
  const analysis = new MemoryLinkAnalysis();
  return {
    add: async ({ file, segment }) => {
      const { onEvent, end } = analysis.begin(file, segment);
      await readFacts(segment, { onEvent });
      end();
    },
    result: () => analysis.result(),
    text: () => memoryLinksText(analysis.result()),
  };
}

function memoryLinksText({ links, unread }: MemoryLinks): string {
  if (links.length === 0 && unread.length === 0) return "nothing was written to memory";
  const linked = links.map(({ key, writer, reader, reads, example }) => [
    ...[plainLine(writer), plainLine(key), plainLine(reader), String(reads)],
    `${plainLine(example.file)}:${example.written_seq} → ${example.read_seq}`,
  ]);
  const forgotten = unread.map(({ key, writer, writes }) => [
    plainLine(writer),
    plainLine(key),
    String(writes),
  ]);
  return [
    table(
      [
        { title: "WRITTEN BY" },
        { title: "KEY" },
        { title: "READ BY" },
        ...right("READS"),
        { title: "EXAMPLE" },
      ],
      linked,
    ),
    ...(forgotten.length === 0
      ? []
      : ["\nnever read", table([{ title: "WRITTEN BY" }, { title: "KEY" }, ...right("WRITES")], forgotten)]),
  ].join("\n");
}

function milliseconds(us: number | null): string {
  return us === null ? "–" : (us / 1000).toFixed(2);
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}
