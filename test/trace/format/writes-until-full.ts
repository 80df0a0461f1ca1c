/**
 * `writes-until-full.ts TRAJ`: writes events to a trajectory, a flush every fifty, until the disk is full; then frees space
 * and goes on with the same writer; prints what happened as JSON. `writes-until-full.ts TRAJ --forever` never stops.
 */
import { rmSync, writeFileSync } from "node:fs";
import { DsecError } from "#core/errors.ts";
import { encodeEvent } from "#trace/events/codec.ts";
import { TrajectoryWriter } from "#trace/format/writer.ts";
import { nodeEngine } from "#trace/node/engine.ts";
import { FileSink, writeTrace } from "#trace/node/files.ts";
import { Random } from "../events/random-events.ts";

const [path, forever] = process.argv.slice(2) as [string, string | undefined];
const random = new Random(1);
const header = { trace_id: "t", source: "test", started_wall_us: 0 };
// space that can be freed
if (forever === undefined) writeFileSync(`${path}.ballast`, random.bytes(1_000_000));

const sink = new FileSink(path);
const writer = new TrajectoryWriter(header, nodeEngine, sink.write);

function add(): void {
  const place = { seq: writer.count + 1, t_us: writer.count, wall_skew_us: 0 };
  const body = { type: "output", stream: "stdout", offset: 0, data: random.bytes(1000) } as const;
  writer.add(encodeEvent(body, place), { ...place, type: "output" });
}

function fill(): DsecError {
  for (;;) {
    add();
    if (writer.count % 50 !== 0) continue;
    try {
      writer.flush();
      if (forever !== undefined) process.stdout.write(`${writer.flushed}\n`);
    } catch (error) {
      if (error instanceof DsecError) return error;
      throw error;
    }
  }
}

const refused = fill();
const whenFull = { code: refused.code, message: refused.message, flushed: writer.flushed, size: sink.size };
let unsealed: string | null = null;
try {
  // the name of a trace appears only once it is whole
  await writeTrace(`${path}.other`, header, events());
} catch (error) {
  unsealed = (error as DsecError).code;
}
rmSync(`${path}.ballast`);
for (let more = 0; more < 120; more++) add();
writer.flush();
sink.sync();
sink.close();
console.log(JSON.stringify({ whenFull, unsealed, flushed: writer.flushed }));

function* events() {
  for (let at = 0; at < 3000; at++) {
    const data = random.bytes(1000);
    yield { type: "output", stream: "stdout", offset: 0, data, t_us: at, wall_us: at } as const;
  }
}
