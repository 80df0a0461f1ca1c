/**
 * Messages between the sandboxes of one job, wherever they run: a channel is a log at the gateway. Every reader gets every
 * message, in order, from its own place on, and gets it again until it acknowledges it. A message goes once all readers
 * have acknowledged it; a full channel refuses what is sent and loses nothing.
 */
import { DsecError, type ErrorCode } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import type { Hold } from "#core/wire/leases.ts";
import { type ChannelDeclaration, ChannelNameSchema } from "#core/wire/messages.ts";
import { exactJson } from "../memory/exact-json.ts";
import { check } from "../memory/keys.ts";
import { untilAnswered } from "../retry.ts";

/** `json` is the body's text, as it was sent; `from` the task that sent it. */
export type Message = { id: number; from: string; at: string; json: string };

export type ReceiveOptions = {
  /** Give messages with greater ids; null is the reader's acknowledged place. */
  after?: number | null;
  limit?: number;
  /** How long to wait for a first message, in milliseconds. */
  waitMs?: number;
  signal: AbortSignal;
};

/** The channels of one sandbox's job, as that sandbox. Which job that is, its lease says. */
export type MessageBus = {
  /** Makes a channel with its rules before its first use, or gives an existing one these rules from now on. */
  declare(declaration: ChannelDeclaration, signal: AbortSignal): Promise<void>;
  /**
   * Appends a message and returns its id. A channel that nobody declared takes any JSON.
   * @param options.key the sender's name for it: sent again under this name it is the same message
   * @throws MALFORMED_JSON, BODY_TOO_LARGE, MEMORY_VALUE_REFUSED, MESSAGE_REFUSED (not what the schema says), CHANNEL_FULL,
   * IDEMPOTENCY_KEY_REUSED
   */
  send(
    channel: string,
    json: Uint8Array | string,
    options: { key?: string | null; signal: AbortSignal },
  ): Promise<number>;
  /** Messages in order, none where the time ran out. The first call makes the caller a reader of what is still there. */
  receive(channel: string, options: ReceiveOptions): Promise<Message[]>;
  /** The sandbox has dealt with everything up to the id. Going back is refused with INVALID_REQUEST. */
  acknowledge(channel: string, through: number, signal: AbortSignal): Promise<void>;
};

/** The gateway as messages need it. */
export type MessageGateway = {
  declareChannel(hold: Hold, declaration: ChannelDeclaration, signal: AbortSignal): Promise<void>;
  sendMessage(hold: Hold, channel: string, key: string, json: string, signal: AbortSignal): Promise<number>;
  receiveMessages(
    hold: Hold,
    channel: string,
    query: { after: number | null; limit: number; waitMs: number },
    signal: AbortSignal,
  ): Promise<Message[]>;
  acknowledgeMessages(hold: Hold, channel: string, through: number, signal: AbortSignal): Promise<void>;
};

/**
 * Each operation is tried until the gateway answers, for some seconds at most. A message whose answer was lost is sent again
 * under the same name, and so is there once.
 * @param attempt what tells this attempt's messages from those of another of its task. Empty where an attempt does what
 * the one before it did: then what that one has sent is not sent again.
 */
export function createMessageBus(gateway: MessageGateway, hold: Hold, attempt: string): MessageBus {
  const sent = new Map<string, number>();

  /** Under the name that counts it. What is refused does not count: another attempt may find room where this one had none. */
  async function sendCounted<T>(channel: string, sendAs: (name: string) => Promise<T>): Promise<T> {
    const count = (sent.get(channel) ?? 0) + 1;
    sent.set(channel, count);
    try {
      return await sendAs(`n:${attempt}:${count}`);
    } catch (error) {
      const isRefused = error instanceof DsecError && REFUSALS.has(error.code);
      if (isRefused && sent.get(channel) === count) sent.set(channel, count - 1);
      throw error;
    }
  }

  return {
    declare: (declaration, signal) =>
      patiently((signal) => gateway.declareChannel(hold, declaration, signal), signal),

    async send(channel, json, { key = null, signal }) {
      checkName(channel);
      const bytes = typeof json === "string" ? Buffer.byteLength(json) : json.length;
      if (bytes > LIMITS.messageBytes) throw tooLarge(channel, bytes);
      const { text } = exactJson(json, `the message to channel ${channel}`, "exact");
      const sendAs = (name: string) =>
        patiently((signal) => gateway.sendMessage(hold, channel, name, text, signal), signal);
      if (key !== null) return sendAs(`k:${key}`);
      try {
        return await sendCounted(channel, sendAs);
      } catch (error) {
        // An earlier attempt came here too and sent something else: this one does not do what that one did.
        if (!(error instanceof DsecError) || error.code !== "IDEMPOTENCY_KEY_REUSED") throw error;
        return sendAs(`u:${crypto.randomUUID()}`);
      }
    },

    async receive(
      channel,
      { after = null, limit = LIMITS.messagesPerReceive, waitMs = 0, signal },
    ): Promise<Message[]> {
      checkName(channel);
      const endMs = performance.now() + waitMs;
      const receive = (signal: AbortSignal) => {
        const leftMs = Math.max(0, Math.round(endMs - performance.now()));
        return gateway.receiveMessages(hold, channel, { after, limit, waitMs: leftMs }, signal);
      };
      return patiently(receive, signal, waitMs);
    },

    async acknowledge(channel, through, signal) {
      checkName(channel);
      await patiently((signal) => gateway.acknowledgeMessages(hold, channel, through, signal), signal);
    },
  };
}

const REFUSALS = new Set<ErrorCode>(["CHANNEL_FULL", "MESSAGE_REFUSED"]);

/** Rejects with the last failure where the gateway does not answer in time, and with the signal's reason. */
async function patiently<T>(
  call: (signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
  waitMs = 0,
): Promise<T> {
  const patience = AbortSignal.timeout(LIMITS.messagePatienceMs + waitMs);
  const either = AbortSignal.any([signal, patience]);
  let failure: DsecError | null = null;
  try {
    return await untilAnswered(() => call(either), {
      signal: either,
      onFailure: (error) => {
        failure = error;
      },
    });
  } catch (error) {
    throw failure !== null && patience.aborted && !signal.aborted ? failure : error;
  }
}

function checkName(channel: string): void {
  check(ChannelNameSchema, channel, "channel name");
}

function tooLarge(channel: string, bytes: number): DsecError {
  return new DsecError(
    "BODY_TOO_LARGE",
    `message to channel ${channel}: ${bytes} bytes, at most ${LIMITS.messageBytes}; write a file and send its path`,
    { details: { max_bytes: LIMITS.messageBytes } },
  );
}
