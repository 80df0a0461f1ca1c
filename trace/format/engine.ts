/** What the format needs of its platform, so that reading and writing traces is bound to none. */
export type Engine = {
  /** One zstd frame (RFC 8878) with a content checksum, made with the format's dictionary, proto/trace-1.dictionary, or with none. */
  compress(bytes: Uint8Array): Uint8Array;
  /** With the dictionary where the frame names it. @throws where the frame is damaged, or holds more than maxBytes, which no more is allocated than */
  decompress(frame: Uint8Array, maxBytes: number): Uint8Array;
  /** Takes back what `decompress` gave, of which nobody looks at a byte any more: memory that is used again stays in the cache. */
  release(content: Uint8Array): void;
  sha256(bytes: Uint8Array): Uint8Array;
};
