import { hash } from "node:crypto";
import type { Digest } from "#core/ids.ts";
import { digestOf } from "#core/json.ts";

/**
 * The digest of a whole namespace, kept up to date entry by entry. It depends on the entries alone, not on the order
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
  #root: Node = null;

  add(entry: EntryHash): void {
    this.#root = insert(this.#root, entry, 0);
  }

  /** No-op for an entry that is not there. */
  remove(entry: EntryHash): void {
    this.#root = without(this.#root, entry, 0);
  }

  digest(): Digest {
    return this.#root === null ? EMPTY : digestOf(hashOf(this.#root));
  }
}

export type EntryHash = Buffer;

export function entryHash(key: string, text: string): EntryHash {
  return hash("sha256", `${JSON.stringify(key)}:${text}`, "buffer");
}

const EMPTY = digestOf(hash("sha256", "", "buffer"));

type Node = null | EntryHash | Branch;
/** `hash` is null while a change below has not been hashed. `size` counts the entries below. */
type Branch = { children: Node[]; size: number; hash: Buffer | null };

function insert(node: Node, entry: EntryHash, depth: number): Node {
  if (node === null) return entry;
  if (Buffer.isBuffer(node)) {
    if (node.equals(entry)) return node;
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
  if (Buffer.isBuffer(node)) return node.equals(entry) ? null : node;
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

function hashOf(node: EntryHash | Branch): Buffer {
  if (Buffer.isBuffer(node)) return node;
  if (node.hash !== null) return node.hash;
  const parts: Uint8Array[] = [BRANCH];
  node.children.forEach((child, at) => {
    if (child !== null) parts.push(DIGITS[at]!, hashOf(child));
  });
  node.hash = hash("sha256", Buffer.concat(parts), "buffer");
  return node.hash;
}

const BRANCH = Uint8Array.of(1);
const DIGITS = Array.from({ length: 16 }, (_, at) => Uint8Array.of(at));

function sizeOf(node: Node): number {
  return node === null ? 0 : Buffer.isBuffer(node) ? 1 : node.size;
}

function digit(entry: EntryHash, depth: number): number {
  const byte = entry[depth >> 1]!;
  return depth % 2 === 0 ? byte >> 4 : byte & 15;
}
