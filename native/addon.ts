/** The types of `addon/`, which only moves messages, descriptors and records. */
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { RingCounters } from "./ring.ts";

export const BUILD_DIRECTORY = fileURLToPath(new URL("../build/native/", import.meta.url));

export type DirectoryEntry = { name: Uint8Array; kind: "file" | "directory" | "link" | "other" };

/** Opaque; one end of a ring in this thread. */
export type RingHandle = { readonly ring: unique symbol };

export type Addon = {
  /** A connected SEQPACKET pair, close-on-exec. */
  socketPair(): [number, number];
  /** One datagram; the attachment goes along as a sealed memfd. */
  send(socket: number, text: string, attachment?: string): void;
  /**
   * Calls back for every datagram, and with null once the other end is closed; the socket is closed by then. Of the
   * descriptors come only as many as this process may still open.
   */
  listen(socket: number, onMessage: (text: string | null, descriptors: number[]) => void): void;
  shutdown(socket: number): void;
  openRegular(root: number, path: Uint8Array): number | null;
  openDirectory(root: number, path: Uint8Array): number | null;
  /** The next few hundred entries; null at the end. */
  readDirectory(descriptor: number): DirectoryEntry[] | null;
  close(descriptor: number): void;
  ringCreate(bytes: number): RingHandle;
  ringCollect(descriptor: number): RingHandle;
  ringDescriptor(ring: RingHandle): number;
  ringPush(
    ring: RingHandle,
    slot: number,
    kind: number,
    timeUs: number,
    bytes: Uint8Array,
    urgent: boolean,
  ): boolean;
  ringWait(ring: RingHandle, bytes: number, timeoutUs: number): boolean;
  ringDrain(ring: RingHandle, out: Uint8Array): number;
  ringClose(ring: RingHandle): void;
  ringCounters(ring: RingHandle): RingCounters;
};

let loaded: Addon | undefined;

/** Throws when `make -C native` has not been run. */
export function loadAddon(): Addon {
  loaded ??= createRequire(import.meta.url)(`${BUILD_DIRECTORY}dsec.node`) as Addon;
  return loaded;
}
