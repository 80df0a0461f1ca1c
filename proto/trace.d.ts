/** What `npm run proto` makes of trace.proto: encoders and decoders, with fields named as there and 64-bit ones as Long. */
export type Message = { readonly [field: string]: unknown; $unknowns?: Uint8Array[] };

export type MessageType = {
  readonly prototype: Message;
  encode(message: object): { finish(): Uint8Array };
  /** @throws RangeError or Error where the bytes are no such message */
  decode(bytes: Uint8Array): Message;
};

export const dsec: {
  trace: {
    v1: Readonly<Record<"Trace" | "Block" | "FileHeader" | "BlockHeader" | "Footer" | "Event", MessageType>>;
  };
};
