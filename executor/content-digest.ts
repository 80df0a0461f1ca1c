import { hash } from "node:crypto";
import type { Digest } from "#core/ids.ts";

/** The address of content that is in memory; of text in UTF-8. */
export function contentDigest(content: Uint8Array | string): Digest {
  return content.length === 0 ? NO_CONTENT : `sha256:${hash("sha256", content)}`;
}

/** Most calls send none. */
const NO_CONTENT: Digest = `sha256:${hash("sha256", "")}`;
