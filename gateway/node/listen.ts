import { setTimeout as sleep } from "node:timers/promises";
import postgres from "postgres";
import { inTime } from "#core/in-time.ts";
import type { DatabaseAddress } from "#gateway/store/postgres-driver.ts";
import { createLocalWake } from "#gateway/store/wake.ts";
import type { Topic, Wake } from "#gateway/wake-port.ts";
import { databaseSocket } from "./database-socket.ts";

export type ListenLog = (event: {
  level: "info" | "warn";
  message: string;
  [field: string]: unknown;
}) => void;

export type ListenWake = Wake & { close(): Promise<void> };

/** The one channel. A payload is the sender's name, then topics, a line each: ids only, whatever the tasks hold. */
const CHANNEL = "dsec";
/** NOTIFY refuses payloads of 8,000 bytes and more. */
const PAYLOAD_BYTES_MAX = 7_900;
/** Topics gather for this long before they are sent, because each NOTIFY takes a lock that all committers share. */
const GATHER_MS = 2;
const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 2_000;
/** A connection that was cut without a word is noticed by asking it now and then. */
const ASK_EVERY_MS = 10_000;
const ANSWER_MS_MAX = 5_000;

/**
 * Wakes waiters across instances over LISTEN and NOTIFY on one connection of its own. When that connection is lost
 * it is made again with back-off, and everybody is woken once it stands, because what was sent meanwhile is gone.
 * Waits end by polling anyway (`createLocalWake`), so that a lost notification costs time and nothing else.
 */
export function listenWake(url: string, options: { log?: ListenLog; pollMs?: number } = {}): ListenWake {
  const { log = () => {} } = options;
  const local = createLocalWake(options.pollMs === undefined ? {} : { pollMs: options.pollMs });
  const sender = crypto.randomUUID();
  const closing = new AbortController();
  let connection: postgres.Sql | undefined;
  let outgoing = new Set<Topic>();
  let gathering = false;

  function receive(payload: string): void {
    const [from, ...topics] = payload.split("\n");
    // Our own waiters were woken when it was sent.
    if (from !== sender) for (const topic of topics) local.notify(topic as Topic);
  }

  function send(): void {
    gathering = false;
    const payloads = payloadsOf(sender, outgoing);
    outgoing = new Set();
    for (const payload of payloads) {
      // Lost where there is no connection: the others poll.
      connection?.unsafe("select pg_notify($1, $2)", [CHANNEL, payload]).catch(() => {});
    }
  }

  async function keepListening(): Promise<void> {
    for (let failures = 0; !closing.signal.aborted; failures++) {
      const lost = new AbortController();
      const client = listeningClient(url, receive, () => lost.abort());
      // Rejects what it is asked just then.
      const end = () => client.end({ timeout: 0 }).catch(() => {});
      closing.signal.addEventListener("abort", end);
      try {
        await answered(client, `listen ${CHANNEL}`);
        connection = client;
        if (failures > 0) log({ level: "info", message: "listening for wake-ups again", failures });
        failures = 0;
        local.notifyAll();
        await untilLost(client, AbortSignal.any([lost.signal, closing.signal]));
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        if (!closing.signal.aborted) {
          log({ level: "warn", message: "wake-ups are delayed: LISTEN failed", reason, failures });
        }
      } finally {
        connection = undefined;
        closing.signal.removeEventListener("abort", end);
        await end();
      }
      const pauseMs = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** failures);
      await sleep(pauseMs, undefined, { signal: closing.signal }).catch(() => {});
    }
  }

  const listening = keepListening();

  return {
    wait: local.wait,
    follow: local.follow,
    notify(topic, told) {
      local.notify(topic, told);
      outgoing.add(topic);
      if (!gathering) setTimeout(send, GATHER_MS);
      gathering = true;
    },
    async close() {
      send();
      closing.abort();
      await listening;
      local.close();
    },
  };
}

/** A client of exactly one connection, which is not made again behind our back: a new one would not be listening. */
function listeningClient(url: string, receive: (payload: string) => void, lost: () => void): postgres.Sql {
  // postgres.js takes `socket` and hands notifications to `onnotify`, which its types leave out.
  const options: postgres.Options<Record<string, never>> & {
    socket(address: DatabaseAddress): unknown;
    onnotify(channel: string, payload: string): void;
  } = {
    socket: databaseSocket,
    max: 1,
    idle_timeout: 0,
    max_lifetime: null,
    connect_timeout: 5,
    fetch_types: false,
    prepare: false,
    connection: { application_name: "dsec-listen" },
    onnotice: () => {},
    onnotify: (_channel, payload) => receive(payload),
    onclose: lost,
  };
  return postgres(url, options);
}

/** Rejects when the connection closes or stops answering; resolves when the signal is that of our own closing. */
async function untilLost(client: postgres.Sql, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    await sleep(ASK_EVERY_MS, undefined, { signal: over, ref: false }).catch(() => {});
    if (over.aborted) break;
    await answered(client, "select 1");
  }
  throw new Error("the connection was closed");
}

function answered(client: postgres.Sql, statement: string): Promise<unknown> {
  const late = () => new Error(`the connection has not answered for ${ANSWER_MS_MAX} ms`);
  return inTime(client.unsafe(statement), ANSWER_MS_MAX, late);
}

/** As few payloads as the topics fit in. Topics are ASCII, so that characters are bytes. */
export function payloadsOf(sender: string, topics: Iterable<Topic>): string[] {
  const payloads: string[] = [];
  let payload = sender;
  for (const topic of topics) {
    if (payload.length + 1 + topic.length > PAYLOAD_BYTES_MAX) {
      payloads.push(payload);
      payload = sender;
    }
    payload += `\n${topic}`;
  }
  return payload === sender ? payloads : [...payloads, payload];
}
