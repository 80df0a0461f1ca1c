import type { Digest } from "./ids.ts";
import { digestOf } from "./json.ts";

/**
 * The Merkle tree hash of RFC 6962 section 2.1 over the leaves' bytes, in order: leaves are hashed after 0x00 and
 * nodes after 0x01, so that a node can never be passed off as a leaf. Null for no leaves.
 */
export async function merkleRoot(leaves: readonly Uint8Array[]): Promise<Digest | null> {
  return merkleRootOfHashes(await Promise.all(leaves.map(merkleLeaf)));
}

/** The hash that a leaf enters the tree with: 32 bytes. Who keeps these need not keep the leaves to find the root. */
export function merkleLeaf(leaf: Uint8Array): Promise<Uint8Array> {
  return hash(0, leaf);
}

/** The root over leaves that are hashed already. */
export async function merkleRootOfHashes(leaves: readonly Uint8Array[]): Promise<Digest | null> {
  if (leaves.length === 0) return null;
  // A subtree of RFC 6962 is complete up to the largest power of two below n: pairing neighbours level by level and
  // carrying an odd last one up gives the same tree.
  let level: readonly Uint8Array[] = leaves;
  while (level.length > 1) {
    const pairs: Promise<Uint8Array>[] = [];
    for (let i = 0; i < level.length; i += 2) {
      const [left, right] = [level[i]!, level[i + 1]];
      pairs.push(right === undefined ? Promise.resolve(left) : hash(1, left, right));
    }
    level = await Promise.all(pairs);
  }
  return digestOf(level[0]!);
}

async function hash(prefix: 0 | 1, ...parts: Uint8Array[]): Promise<Uint8Array> {
  const bytes = new Uint8Array(1 + parts.reduce((sum, part) => sum + part.length, 0));
  bytes[0] = prefix;
  let offset = 1;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}
