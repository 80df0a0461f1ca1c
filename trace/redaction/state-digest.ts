/**
 * The digest of a memory namespace, as executor/memory/state-digest.ts defines it, of entries that are all at hand: hashes of `"key":value` in a
 * tree that branches by hexadecimal digits as far as it must.
 */
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";

export function stateDigestOf(
  entries: Iterable<readonly [key: string, value_json: string]>,
  sha256: (bytes: Uint8Array) => Uint8Array,
): Digest {
  const encoder = new TextEncoder();
  const hashes: Uint8Array[] = [];
  for (const [key, text] of entries) hashes.push(sha256(encoder.encode(`${JSON.stringify(key)}:${text}`)));
  if (hashes.length === 0) return digestOf(sha256(new Uint8Array()));
  return digestOf(nodeOf(hashes, 0, sha256));
}

function nodeOf(hashes: Uint8Array[], depth: number, sha256: (bytes: Uint8Array) => Uint8Array): Uint8Array {
  // equal entries hash alike, and no digit tells them apart
  if (hashes.length === 1 || depth === 64) return hashes[0]!;
  const parts: number[] = [1];
  for (let digit = 0; digit < 16; digit++) {
    const below = hashes.filter((hash) => digitAt(hash, depth) === digit);
    if (below.length > 0) parts.push(digit, ...nodeOf(below, depth + 1, sha256));
  }
  return sha256(Uint8Array.from(parts));
}

function digitAt(hash: Uint8Array, depth: number): number {
  const byte = hash[depth >> 1]!;
  return depth % 2 === 0 ? byte >> 4 : byte & 15;
}
