/** The part of the store that keeps messages between the tasks of a job. */
import type { ExecutorId } from "#core/ids.ts";
import type { Json } from "#core/json.ts";
import type { Hold } from "#core/wire/leases.ts";
import type { ChannelDeclaration } from "#core/wire/messages.ts";

/** `from` is the task that sent it, `json` the body's text as it was sent. */
export type StoredMessage = { id: number; from: string; at: string; json: string };

/** Channels are named by a task's lease alone: they are those of its job. LEASE_* from each. */
export type MessageStore = {
  /** Rules for a channel from now on. CHANNEL_FULL where the job or the channel has no room for another. */
  declareChannel(executorId: ExecutorId, hold: Hold, channel: ChannelDeclaration): Promise<void>;
  /**
   * Appends a message of the lease's task, once for each `key` of its own: the same id where it was sent before. `value` is
   * what `text` says. MESSAGE_REFUSED, CHANNEL_FULL, IDEMPOTENCY_KEY_REUSED for another text.
   */
  sendMessage(
    executorId: ExecutorId,
    hold: Hold,
    message: { channel: string; key: string; text: string; value: Json },
  ): Promise<{ id: number }>;
  /**
   * What the lease's task has not acknowledged, or what follows on `after`, in order; it is a reader from its first time on.
   * `channelId` is what is waited for where there is nothing.
   */
  receiveMessages(
    executorId: ExecutorId,
    hold: Hold,
    from: { channel: string; after: number | null; limit: number },
  ): Promise<{ channelId: number; messages: StoredMessage[] }>;
  /** INVALID_REQUEST for what was taken back, or given ahead. */
  acknowledgeMessages(
    executorId: ExecutorId,
    hold: Hold,
    read: { channel: string; through: number },
  ): Promise<void>;
  /** Removes readers whose task has ended, and the channels of jobs whose last has. Returns how many channels. */
  sweepChannels(): Promise<number>;
};
