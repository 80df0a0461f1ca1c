import { DsecError } from "#core/errors.ts";

export function corruptArchive(archive: string, why: string, cause?: unknown): DsecError {
  return new DsecError("TRACE_CORRUPT", `${archive}: ${why}; fetch the archive again`, { cause });
}

export function frameDoesNotUnpack(archive: string, cause: unknown): DsecError {
  return corruptArchive(archive, `a frame does not unpack: ${(cause as Error).message}`, cause);
}
