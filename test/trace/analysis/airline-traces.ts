/** The recorded episodes as traces: calls, conversation, reward, and what should have been done as labels. */
import { EPISODES, type Episode } from "#test/flow/episodes.ts";
import { call, failed, type Made, madeTrace } from "#test/trace/made-trace.ts";
import type { TraceSegment } from "#trace/format/segment.ts";

export const STATE_CHANGING = new Set([
  "book_reservation",
  "cancel_reservation",
  "send_certificate",
  "update_reservation_baggages",
  "update_reservation_flights",
  "update_reservation_passengers",
]);

export type RewardedEpisode = Episode & { reward: number };

export const AIRLINE = EPISODES as RewardedEpisode[] | null;

export function airlineTrace(episode: RewardedEpisode): Promise<TraceSegment> {
  const { steps, ...labels } = episode;
  return madeTrace(airlineEvents(episode), { trace_id: episode.id, labels_json: JSON.stringify(labels) });
}

export function* airlineEvents({ steps, reward }: RewardedEpisode): Generator<Made> {
  let number = 0;
  for (const [at, step] of steps.entries()) {
    if (step.kind !== "tool") {
      const content_json = JSON.stringify(step.content);
      yield { type: "observation", state: "injected", observation: at, source: step.kind, content_json };
      continue;
    }
    number++;
    const is_error = step.response.startsWith("Error");
    yield* call(number, step.tool, {
      arguments: step.args,
      output: JSON.stringify(step.response),
      start: { read_only: !STATE_CHANGING.has(step.tool) },
      end: { is_error },
    });
    if (is_error) yield failed(step.response, { call: number });
  }
  const components = [{ name: "reward", value: reward, weight: 1, product: reward }];
  yield { type: "reward", components, sum: reward };
}
