import { expect, test } from "vitest";
import { merkleLeaf, merkleRoot, merkleRootOfHashes } from "#core/merkle.ts";

/** The leaves that Certificate Transparency's own implementations are tested with, and the roots they agree on. */
const LEAVES = [
  "",
  "00",
  "10",
  "2021",
  "3031",
  "40414243",
  "5051525354555657",
  "606162636465666768696a6b6c6d6e6f",
].map((hex) => new Uint8Array(Buffer.from(hex, "hex")));
const ROOTS = [
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

test("the root over one to eight leaves is that of RFC 6962", async () => {
  for (const [i, root] of ROOTS.entries()) {
    expect(await merkleRoot(LEAVES.slice(0, i + 1))).toBe(`sha256:${root}`);
    const hashes = await Promise.all(LEAVES.slice(0, i + 1).map(merkleLeaf));
    expect(await merkleRootOfHashes(hashes)).toBe(`sha256:${root}`);
  }
});

test("no leaves have no root, and a node does not pass for a leaf", async () => {
  expect(await merkleRoot([])).toBeNull();
  const [left, right] = await Promise.all(LEAVES.slice(0, 2).map(merkleLeaf));
  const node = new Uint8Array(64);
  node.set(left!);
  node.set(right!, 32);
  expect(await merkleRoot([node])).not.toBe(await merkleRoot(LEAVES.slice(0, 2)));
});
