import { openAsBlob } from "node:fs";
import { basename } from "node:path";
import { DsecError } from "#core/errors.ts";
import type { Digest } from "#core/ids.ts";
import type { Hold } from "#core/wire/leases.ts";
import type { AttemptFolder, Finish } from "./attempt-folder.ts";
import { outputFile } from "./collect.ts";
import { wireText } from "./evidence.ts";
import { type GatewayClient, isLeaseLost } from "./gateway-client.ts";
import { type CommandEnd, commandEnd } from "./outcome.ts";
import { pause, untilAnswered } from "./retry.ts";
import type { KeptTrace } from "./trace/collector.ts";

const PARALLEL_UPLOADS = 16;

export type Delivery = "delivered" | "lost";

type Options = {
  client: Pick<GatewayClient, "putBlob" | "complete" | "fail">;
  /** ends the attempt to deliver, with its reason; the folder then stays for the next life */
  signal: AbortSignal;
  onFailure: (error: DsecError) => void;
};

/**
 * Brings a finished attempt to the gateway, through outages of any length: uploads what it left, then completes the
 * lease. `lost` where the gateway answers that the lease is held no more; then nothing of it was taken. Where the gateway
 * refuses the result for what it is, the attempt ends with the refusal as its message, and its command is not run again.
 * @param options.flushed resolves once the live output is with the gateway, which takes none after the completion
 */
export async function deliver(
  finish: Finish,
  folder: AttemptFolder,
  options: Options & { flushed: Promise<void> },
): Promise<Delivery> {
  const { client, signal, onFailure } = options;
  const { hold, complete } = finish;
  try {
    await Promise.all([upload(finish, folder, options), options.flushed]);
    const call = () => client.complete(hold.lease_id, complete, signal).catch(rejectedUnlessOpen);
    while ((await untilAnswered(call, { signal, onFailure })) === "open") await pause(OPEN_CALLS_MS, signal);
    return "delivered";
  } catch (error) {
    if (isLeaseLost(error)) return "lost";
    if (!(error instanceof DsecError) || signal.aborted) throw error;
    onFailure(error);
    const refused = `the gateway refused the result of ${hold.lease_id}`;
    const message = wireText(`${error.code}: ${refused}: ${error.message}`);
    await failLease(hold, { message, evidence: null, ended: commandEnd(complete.result.outcome) }, options);
    return "lost";
  }
}

/** How soon a result is sent again that waits for the receipts of its calls. */
const OPEN_CALLS_MS = 1_000;

/** A call whose receipt could not be kept is open until its time has passed, and is no part of the record from then on. */
function rejectedUnlessOpen(error: unknown): "open" {
  if (error instanceof DsecError && typeof error.details?.open === "number") return "open";
  throw error;
}

/** What is said of a fault: evidence where there is any, and the trace that it names. */
export type Failure = {
  message: string;
  evidence: string | null;
  ended: CommandEnd | null;
  trace?: KeptTrace | null;
};

/** Tells the gateway that a fault of ours ended the attempt. No-op where the lease is held no more. */
export async function failLease(hold: Hold, failure: Failure, options: Options): Promise<void> {
  const { client, signal, onFailure } = options;
  const { trace } = failure;
  const fail = async (evidence: string | null) => {
    const request = { fence: hold.fence, message: failure.message, evidence, ended: failure.ended };
    await untilAnswered(() => client.fail(hold.lease_id, request, signal), { signal, onFailure });
  };
  try {
    if (trace) {
      const content = await contentOf(trace.path);
      await untilAnswered(() => client.putBlob(hold, trace.digest, content, signal), { signal, onFailure });
    }
    await fail(failure.evidence);
  } catch (error) {
    if (isLeaseLost(error)) return;
    if (failure.evidence === null || signal.aborted) throw error;
    // That the attempt failed is to be known even where the evidence of it is not believed.
    if (error instanceof DsecError) onFailure(error);
    await fail(null);
  }
}

async function upload(finish: Finish, folder: AttemptFolder, options: Options): Promise<void> {
  const { client, signal, onFailure } = options;
  const files = [...filesByDigest(finish, folder)];
  const worker = async () => {
    for (let next = files.pop(); next !== undefined; next = files.pop()) {
      const [digest, path] = next;
      const content = await contentOf(path);
      await untilAnswered(() => client.putBlob(finish.hold, digest, content, signal), { signal, onFailure });
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL_UPLOADS, files.length) }, worker));
}

async function contentOf(path: string): Promise<Blob> {
  try {
    return await openAsBlob(path);
  } catch (cause) {
    throw new Error(`${basename(path)} cannot be read any more`, { cause });
  }
}

/** Where each content of the result lies. No bytes have no file and need no upload. */
function filesByDigest({ complete, trace }: Finish, folder: AttemptFolder): Map<Digest, string> {
  const { result } = complete;
  const files = new Map<Digest, string>();
  if (trace !== null) files.set(trace.digest as Digest, trace.path);
  for (const { digest, size } of result.outputs) {
    if (size > 0) files.set(digest as Digest, outputFile(folder.outputs, digest));
  }
  for (const name of ["stdout", "stderr"] as const) {
    const { digest, kept_bytes } = result[name];
    if (kept_bytes > 0) files.set(digest as Digest, folder[name]);
  }
  return files;
}
