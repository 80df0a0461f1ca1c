import { DsecError } from "#core/errors.ts";
import { backoffMs, isTransient, pause, type Transport } from "./transport.ts";

/**
 * The bytes of a running attempt's trajectory as they come, over any number of connections: after a drop it asks on from the
 * last byte that it yielded. Ends when the attempt has, and without error when the signal aborts.
 */
export async function* followTrajectoryBytes(
  transport: Transport,
  path: string,
  given: { attempt?: number; signal?: AbortSignal },
): AsyncGenerator<Uint8Array> {
  const { attempt, signal } = given;
  let offset = 0;
  let failures = 0;
  while (!signal?.aborted) {
    try {
      const query = {
        follow: "true",
        offset: String(offset),
        ...(attempt ? { attempt: String(attempt) } : {}),
      };
      const response = await transport.send({ method: "GET", path, query, idempotent: true, signal });
      for await (const part of response.body ?? []) {
        failures = 0;
        offset += part.length;
        yield part;
      }
      return;
    } catch (cause) {
      if (signal?.aborted) return;
      const error =
        cause instanceof DsecError
          ? cause
          : new DsecError("GATEWAY_UNREACHABLE", `${path}: the stream broke off`, { cause });
      if (!isTransient(error) || failures >= transport.retries) throw error;
      await pause(backoffMs(failures++), signal).catch(() => {});
    }
  }
}
