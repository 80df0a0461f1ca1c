/**
 * Makes proto/trace-1.dictionary: `npm run dictionary`. It was made once, for version 1 of the trace format; files of
 * that version name it, so another one is another version's. Its content is what a trace holds of the example runs in
 * setup/trace-dictionary/, the most ordinary last, where references to it are shortest; its tables of symbol frequencies are
 * those that `zstd --train` finds in the same examples.
 */
import { execFileSync } from "node:child_process";
import { createReadStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { encodeEvent, encodeMessage } from "#trace/events/codec.ts";
import { type EventBody, SECTIONS, type Section, sectionOf } from "#trace/events/event.ts";
import { splitEvent } from "#trace/events/place.ts";
import { importTraces } from "#trace/exchange/import.ts";
import type { ImportedTrace } from "#trace/exchange/imported.ts";
import { type BlockEvents, encodeBlock } from "#trace/format/block.ts";
import { completeHeader } from "#trace/format/header.ts";
import { nodeEngine } from "#trace/node/engine.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const EXAMPLES = ["runs.jsonl", "conversations.jsonl"];
/** Between 32768 and 2^31, as RFC 8878 section 5.2 leaves to whoever needs one; below 2^16 it takes two bytes. */
const DICTIONARY_ID = 40_961;
const SAMPLE_BYTES = 1500;

const contents: Uint8Array[] = [];
for (const name of EXAMPLES) {
  const path = join(ROOT, "setup/trace-dictionary", name);
  const options = { stateChanging: null, memoryFromAnswers: true };
  for await (const trace of importTraces(createReadStream(path), path, "jsonl", options)) {
    contents.push(await contentOf(trace));
  }
}
writeFileSync(join(ROOT, "proto/trace-1.dictionary"), Buffer.concat([tablesFor(contents), ...contents]));

/** As a file holds it: the file header's message, and a block for each section. */
async function contentOf({ header, events }: ImportedTrace): Promise<Uint8Array> {
  const blocks = new Map<Section, BlockEvents>();
  let seq = 0;
  for await (const { t_us, wall_us, ...body } of events) {
    const bytes = encodeEvent(body as EventBody, { seq: ++seq, t_us, wall_skew_us: 0 });
    const section = sectionOf(body.type);
    const block = blocks.get(section) ?? { seqs: [], times: [], wallSkews: [], bodies: [] };
    blocks.set(section, block);
    block.seqs.push(seq);
    block.times.push(t_us);
    block.wallSkews.push(0);
    block.bodies.push(splitEvent(bytes).body);
  }
  return Buffer.concat([
    encodeMessage("FileHeader", completeHeader(header, nodeEngine)),
    ...SECTIONS.filter((section) => blocks.has(section)).map((section) =>
      encodeBlock(section, blocks.get(section)!),
    ),
  ]);
}

/** What stands before the content of a dictionary (RFC 8878 section 5): magic number, id, tables, and the first three offsets. */
function tablesFor(contents: readonly Uint8Array[]): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), "dsec-dictionary-"));
  try {
    const samples: string[] = [];
    for (const content of contents) {
      for (let at = 0; at < content.length; at += SAMPLE_BYTES) {
        const sample = join(folder, `${samples.length}`);
        writeFileSync(sample, content.subarray(at, at + SAMPLE_BYTES));
        samples.push(sample);
      }
    }
    const trained = join(folder, "trained");
    const options = ["--train", "--maxdict=24000", `--dictID=${DICTIONARY_ID}`, "-q", "-o", trained];
    execFileSync("zstd", [...options, ...samples], { stdio: "ignore" });
    const dictionary = readFileSync(trained);
    const offsets = Buffer.from([1, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0]);
    return dictionary.subarray(0, dictionary.indexOf(offsets) + offsets.length);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
