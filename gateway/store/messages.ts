/** Messages between the tasks of a job. What each statement locks, and in which order, is in migrations/0005_messages.sql. */
import { DsecError } from "#core/errors.ts";
import type { ExecutorId } from "#core/ids.ts";
import type { Json } from "#core/json.ts";
import { type Check, compileSchema } from "#core/json-schema.ts";
import { LIMITS } from "#core/limits.ts";
import type { Hold } from "#core/wire/leases.ts";
import type { MessageStore } from "#gateway/message-port.ts";
import type { Store } from "#gateway/ports.ts";
import type { StoreContext } from "./store.ts";

/** @param findLease says why an executor was refused */
export function messageStore(
  { sql, wake }: StoreContext,
  { findLease }: Pick<Store, "findLease">,
): MessageStore {
  const rules = new Rules();

  async function lost(executorId: ExecutorId, hold: Hold): Promise<never> {
    await findLease(executorId, hold);
    throw new DsecError("LEASE_EXPIRED", `lease ${hold.lease_id} ended while it used a channel`);
  }

  async function join(executorId: ExecutorId, hold: Hold, channel: string): Promise<void> {
    const [row] = await sql.query<{ outcome: Joined }>(READ, [
      ...[executorId, hold.lease_id, hold.fence, channel],
      ...[LIMITS.channelsPerJob, LIMITS.channelMessages, LIMITS.channelReaders],
    ]);
    if (row!.outcome === "lost") await lost(executorId, hold);
    refuseUnlessJoined(row!.outcome, channel);
  }

  return {
    async declareChannel(executorId, hold, { name, schema, capacity, reads }) {
      const [row] = await sql.query<{ outcome: Joined }>(DECLARE, [
        ...[executorId, hold.lease_id, hold.fence, name],
        ...[schema === null ? null : JSON.stringify(schema), capacity, reads],
        ...[LIMITS.channelsPerJob, LIMITS.channelReaders],
      ]);
      if (row!.outcome === "lost") await lost(executorId, hold);
      refuseUnlessJoined(row!.outcome, name);
    },

    async sendMessage(executorId, hold, { channel, key, text, value }) {
      const size = new TextEncoder().encode(text).length;
      // The rule that held last time is judged by first: mostly it still does, and then one statement is enough.
      const place = `${hold.lease_id} ${channel}`;
      for (let rule = rules.knownAt(place); ; ) {
        const why = rule === null ? null : rules.check(rule, channel)(value);
        // A body that an old rule refuses is shown to the database all the same: there may be a new one.
        const judgedBy = why === null ? rule : "";
        const [row] = await sql.query<SentRow>(SEND, [
          ...[executorId, hold.lease_id, hold.fence, channel, key, judgedBy, text, size],
          ...[LIMITS.channelsPerJob, LIMITS.channelMessages, LIMITS.channelBytes],
        ]);
        const { outcome, channel_id, message, waiting, slowest } = row!;
        switch (outcome) {
          case "sent":
            wake.notify(`messages:${Number(channel_id)}`);
            return { id: Number(message) };
          case "unjudged":
            if (why !== null && row!.rule === rule) {
              throw new DsecError("MESSAGE_REFUSED", `message to channel ${channel}: ${why}`);
            }
            rule = row!.rule;
            rules.remember(place, rule);
            continue;
          case "reused":
            throw new DsecError(
              "IDEMPOTENCY_KEY_REUSED",
              `channel ${channel}: message ${Number(message)} was sent with this Idempotency-Key and says something else; use a new key for a new message`,
            );
          case "full":
            throw full(channel, waiting ?? 0, slowest);
          case "no_room":
            throw tooManyChannels(channel);
          case "lost":
            await lost(executorId, hold);
        }
      }
    },

    async receiveMessages(executorId, hold, { channel, after, limit }) {
      const look = () =>
        sql.query<MessageRow>(RECEIVE, [
          ...[executorId, hold.lease_id, hold.fence, channel, after, limit, LIMITS.memoryPageBytes],
        ]);
      let rows = await look();
      if (rows.length === 0) {
        await join(executorId, hold, channel);
        rows = await look();
      }
      if (rows.length === 0) await lost(executorId, hold);
      const messages = rows.flatMap(({ id, sender, body, at }) =>
        id === null ? [] : [{ id: Number(id), from: sender!, at: at!.toISOString(), json: body! }],
      );
      return { channelId: Number(rows[0]!.channel_id), messages };
    },

    async acknowledgeMessages(executorId, hold, { channel, through }) {
      const [row] = await sql.query<{ outcome: string; place: string | null; last: string | null }>(
        ACKNOWLEDGE,
        [
          ...[executorId, hold.lease_id, hold.fence, channel, through],
          ...[LIMITS.channelsPerJob, LIMITS.channelMessages, LIMITS.channelReaders, LIMITS.messageKeysKept],
        ],
      );
      const { outcome, place, last } = row!;
      if (outcome === "acknowledged") return;
      if (outcome === "lost") await lost(executorId, hold);
      if (outcome !== "refused") refuseUnlessJoined(outcome as Joined, channel);
      throw new DsecError(
        "INVALID_REQUEST",
        `channel ${channel}: message ${through} cannot be acknowledged; it may be from ${Number(place)} to ${Number(last)}`,
      );
    },

    async sweepChannels() {
      const [row] = await sql.query<{ removed: number }>(SWEEP, [LIMITS.messageKeysKept]);
      return row!.removed;
    },
  };
}

type Joined = "joined" | "lost" | "no_room" | "crowded";
type SentRow = {
  outcome: "sent" | "lost" | "no_room" | "unjudged" | "full" | "reused";
  channel_id: string | null;
  message: string | null;
  rule: string | null;
  waiting: number | null;
  slowest: string | null;
};
type MessageRow = {
  channel_id: string;
  id: string | null;
  sender: string | null;
  body: string | null;
  at: Date | null;
};

/** Schemas of channels: compiled by their text, for many channels share few; and which one a sender met last. */
class Rules {
  readonly #checks = new Map<string, Check>();
  readonly #last = new Map<string, string>();

  check(rule: string, channel: string): Check {
    let check = this.#checks.get(rule);
    if (check === undefined) {
      check = compileSchema(JSON.parse(rule) as Json, `channel ${channel}`);
      if (this.#checks.size >= COMPILED_MAX) this.#checks.clear();
      this.#checks.set(rule, check);
    }
    return check;
  }

  knownAt(place: string): string | null {
    return this.#last.get(place) ?? null;
  }

  remember(place: string, rule: string | null): void {
    if (this.#last.size >= PLACES_MAX) this.#last.clear();
    if (rule === null) this.#last.delete(place);
    else this.#last.set(place, rule);
  }
}

const COMPILED_MAX = 256;
const PLACES_MAX = 4_096;

const READ = "select dsec_read_channel($1, $2, $3::bigint, $4, $5::int, $6::int, $7::int) as outcome";

const DECLARE = `
select dsec_declare_channel($1, $2, $3::bigint, $4, $5, $6::int, $7::boolean, $8::int, $9::int) as outcome`;

const SEND = `
select outcome, channel_id, message, rule, waiting, slowest
from dsec_send_message($1, $2, $3::bigint, $4, $5, $6, $7, $8::int, $9::int, $10::int, $11::int)`;

const ACKNOWLEDGE = `
select outcome, place, last
from dsec_acknowledge_messages($1, $2, $3::bigint, $4, $5::bigint, $6::int, $7::int, $8::int, $9::int)`;

const SWEEP = "select dsec_sweep_channels($1::int) as removed";

/**
 * What a reader gets now, as much as fills one page but at least one; a row without a message where there is none. No row
 * where the lease is not held or its task is no reader yet. It locks nothing: a lease that ends meanwhile has read, no more.
 */
const RECEIVE = `
with reader as materialized (
  select c.id as channel_id, greatest(coalesce($5::bigint, r.acknowledged), c.gone_id) as after
  from leases l join tasks t on t.id = l.task_id
  join channels c on c.key_id = t.key_id and c.job = coalesce(t.job, ':' || t.id) and c.name = $4
  join channel_readers r on r.channel_id = c.id and r.task_id = t.id
  where l.id = $2 and l.fence = $3::bigint and l.executor_id = $1 and l.expires_at > dsec_now()
)
select reader.channel_id, p.id, p.sender, p.body, p.at from reader left join lateral (
  select n.*, sum(n.size_bytes) over (order by n.id) as total from (
    select m.id, m.sender, m.body, m.at, m.size_bytes from channel_messages m
    where m.channel_id = reader.channel_id and m.id > reader.after order by m.id limit $6::int
  ) n
) p on p.total <= $7::int or p.total = p.size_bytes
order by p.id`;

function refuseUnlessJoined(outcome: Joined, channel: string): void {
  if (outcome === "no_room") throw tooManyChannels(channel);
  if (outcome === "crowded") {
    throw new DsecError(
      "CHANNEL_FULL",
      `channel ${channel} has ${LIMITS.channelReaders} readers and takes no other`,
    );
  }
}

function full(channel: string, messages: number, slowest: string | null): DsecError {
  const holder = slowest === null ? "nobody reads it" : `${slowest} has acknowledged least`;
  return new DsecError(
    "CHANNEL_FULL",
    `channel ${channel} holds ${messages} messages and takes no more; ${holder}; send again later`,
    { details: { retry_after_ms: 100, messages, slowest_reader: slowest } },
  );
}

function tooManyChannels(channel: string): DsecError {
  return new DsecError(
    "CHANNEL_FULL",
    `the job has ${LIMITS.channelsPerJob} channels and takes no other; channel ${channel} was not made`,
  );
}
