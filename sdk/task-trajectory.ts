import { DsecError } from "#core/errors.ts";
import { backoffMs, isTransient, pause, type Transport } from "./transport.ts";

/** A connection that stood for so long was quiet, not broken: a sandbox may do nothing for hours. */
const STOOD_MS = 10_000;

/**
 * The bytes of a running attempt's trajectory as they come, over any number of connections: after each it asks on from the
 * last byte that it yielded. Ends when the gateway says that the attempt is over, and without error when the signal aborts.
 */
export async function* followTrajectoryBytes(
  transport: Transport,
  path: string,
  given: { attempt?: number; signal?: AbortSignal },
): AsyncGenerator<Uint8Array> {
  const { signal } = given;
  let { attempt } = given;
  let offset = 0;
  let failures = 0;
  while (!signal?.aborted) {
    let failure: unknown = null;
    const askedAtMs = performance.now();
    try {
      const query = { follow: "true", offset: String(offset), attempt };
      const response = await transport.send({ method: "GET", path, query, idempotent: true, signal });
      if (response.status === 204) return;
      attempt ??= Number(response.headers.get("dsec-attempt")) || undefined;
      failure = new DsecError("GATEWAY_UNREACHABLE", `${path}: streams end before they say what of`);
      for await (const part of response.body ?? []) {
        // Of one that began after we asked. The next connection might find another, so it is to be named from its first byte on.
        if (attempt === undefined) break;
        failures = 0;
        failure = null;
        offset += part.length;
        yield part;
      }
    } catch (cause) {
      if (signal?.aborted) return;
      failure =
        cause instanceof DsecError
          ? cause
          : new DsecError("GATEWAY_UNREACHABLE", `${path}: the stream broke off`, { cause });
      if (!isTransient(failure)) throw failure;
    }
    if (performance.now() - askedAtMs >= STOOD_MS) failures = 0;
    if (failure === null) continue;
    if (failures >= transport.retries) throw failure;
    await pause(backoffMs(failures++), signal).catch(() => {});
  }
}
