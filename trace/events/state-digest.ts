import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";
import { sameBytes } from "../format/frames.ts";

/**
 * The digest of a whole memory namespace, kept up to date entry by entry. It depends on the entries alone, not on the order
 * in which they came, and anybody can compute it anew from a listing:
 *
 * - an entry's hash is the SHA-256 of `"key":value`, both as compact JSON text in UTF-8;
 * - the hashes stand in a tree that branches by their hexadecimal digits only as far as it must to tell them apart;
 * - a branch's hash is the SHA-256 of the byte 1 and, for each child in order, its digit (one byte) and its hash;
 * - the digest is the root's hash, or the SHA-256 of nothing for an empty namespace.
 *
 * Sums and XORs of hashes would be simpler, but who chooses the entries can make two states collide there.
 */
export class StateDigest {
  readonly #sha256: Sha256;
  #root: Node = null;

  constructor(sha256: Sha256) {
    this.#sha256 = sha256;
  }

  add(entry: EntryHash): void {
    this.#root = insert(this.#root, entry, 0);
  }

  /** No-op for an entry that is not there. */
  remove(entry: EntryHash): void {
    this.#root = without(this.#root, entry, 0);
  }

  digest(): Digest {
    return digestOf(this.#root === null ? this.#sha256(NOTHING) : hashOf(this.#root, this.#sha256));
  }
}

type Sha256 = (bytes: Uint8Array) => Uint8Array;
export type EntryHash = Uint8Array;

export function entryHash(key: string, text: string, sha256: Sha256): EntryHash {
  return sha256(encoder.encode(`${JSON.stringify(key)}:${text}`));
}

const encoder = new TextEncoder();
const NOTHING = new Uint8Array(0);

type Node = null | EntryHash | Branch;
/** `hash` is null while a change below has not been hashed. `size` counts the entries below. */
type Branch = { children: Node[]; size: number; hash: Uint8Array | null };

function insert(node: Node, entry: EntryHash, depth: number): Node {
  if (node === null) return entry;
  if (node instanceof Uint8Array) {
    if (sameBytes(node, entry)) return node;
    const branch: Branch = { children: new Array<Node>(16).fill(null), size: 1, hash: null };
    branch.children[digit(node, depth)] = node;
    return insert(branch, entry, depth);
  }
  const at = digit(entry, depth);
  const before = node.children[at]!;
  const sizeBefore = sizeOf(before);
  const after = insert(before, entry, depth + 1);
  node.children[at] = after;
  node.size += sizeOf(after) - sizeBefore;
  node.hash = null;
  return node;
}

function without(node: Node, entry: EntryHash, depth: number): Node {
  if (node === null) return null;
  if (node instanceof Uint8Array) return sameBytes(node, entry) ? null : node;
  const at = digit(entry, depth);
  const before = node.children[at]!;
  const sizeBefore = sizeOf(before);
  const after = without(before, entry, depth + 1);
  node.children[at] = after;
  node.size += sizeOf(after) - sizeBefore;
  node.hash = null;
  // The last entry moves up, so that the shape depends on the entries alone.
  return node.size === 1 ? node.children.find((child) => child !== null)! : node;
}

function hashOf(node: EntryHash | Branch, sha256: Sha256): Uint8Array {
  if (node instanceof Uint8Array) return node;
  if (node.hash !== null) return node.hash;
  const parts = new Uint8Array(1 + 16 * 33);
  parts[0] = BRANCH;
  let length = 1;
  for (const [digit, child] of node.children.entries()) {
    if (child === null) continue;
    parts[length++] = digit;
    parts.set(hashOf(child, sha256), length);
    length += 32;
  }
  node.hash = sha256(parts.subarray(0, length));
  return node.hash;
}

const BRANCH = 1;

function sizeOf(node: Node): number {
  return node === null ? 0 : node instanceof Uint8Array ? 1 : node.size;
}

function digit(entry: EntryHash, depth: number): number {
  const byte = entry[depth >> 1]!;
  return depth % 2 === 0 ? byte >> 4 : byte & 15;
}
