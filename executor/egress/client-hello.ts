/** What the first bytes of a connection say. `serverName` is as the client wrote it, or null where it names none. */
export type FirstBytes =
  | { kind: "incomplete" }
  | { kind: "not_tls" }
  | { kind: "malformed"; why: string }
  | { kind: "client_hello"; serverName: string | null };

/** A client's first flight is 0.3 to 2 KiB; what is larger than this is no ClientHello that anyone sends. */
export const CLIENT_HELLO_BYTES = 16 * 1024;

/**
 * Reads the server name out of a TLS ClientHello (RFC 8446 section 4.1.2, RFC 6066 section 3), which may be spread over
 * several records and come in any pieces: call again with more bytes while the answer is `incomplete`.
 */
export function readFirstBytes(bytes: Buffer): FirstBytes {
  if (bytes.length === 0) return { kind: "incomplete" };
  if (bytes[0] !== HANDSHAKE) return { kind: "not_tls" };
  try {
    const message = handshakeMessage(bytes);
    if (message !== null) return { kind: "client_hello", serverName: serverNameOf(new Reader(message)) };
  } catch (error) {
    if (error instanceof Malformed) return { kind: "malformed", why: error.message };
    throw error;
  }
  if (bytes.length <= CLIENT_HELLO_BYTES) return { kind: "incomplete" };
  return { kind: "malformed", why: `no ClientHello within ${CLIENT_HELLO_BYTES} bytes` };
}

const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
const RECORD_BYTES_MAX = 1 << 14;
const EXTENSION_SERVER_NAME = 0;
const NAME_TYPE_HOST = 0;

class Malformed extends Error {}

/** The body of the first handshake message, put together from its records (RFC 8446 section 5.1), or null. */
function handshakeMessage(bytes: Buffer): Buffer | null {
  const parts: Buffer[] = [];
  let gathered = 0;
  let wanted = 4;
  for (let at = 0; gathered < wanted; ) {
    if (bytes.length < at + 5) return null;
    if (bytes[at] !== HANDSHAKE || bytes[at + 1] !== 3) throw new Malformed("a record is no TLS handshake");
    const length = bytes.readUInt16BE(at + 3);
    if (length === 0 || length > RECORD_BYTES_MAX) throw new Malformed(`a record has ${length} bytes`);
    parts.push(bytes.subarray(at + 5, at + 5 + length));
    gathered += parts.at(-1)!.length;
    at += 5 + length;
    if (wanted === 4 && gathered >= 4) {
      const head = Buffer.concat(parts);
      if (head[0] !== CLIENT_HELLO) throw new Malformed("the first message is no ClientHello");
      wanted = 4 + head.readUIntBE(1, 3);
      if (wanted > CLIENT_HELLO_BYTES) throw new Malformed(`the ClientHello has ${wanted} bytes`);
    }
  }
  return Buffer.concat(parts).subarray(4, wanted);
}

function serverNameOf(hello: Reader): string | null {
  hello.skip(2 + 32); // legacy_version, random
  hello.vector(1); // legacy_session_id
  hello.vector(2); // cipher_suites
  hello.vector(1); // legacy_compression_methods
  if (hello.isAtEnd) return null;
  const extensions = hello.vector(2);
  let name: string | null = null;
  while (!extensions.isAtEnd) {
    const type = extensions.number(2);
    const content = extensions.vector(2);
    if (type !== EXTENSION_SERVER_NAME) continue;
    // Two names would leave it to the upstream which of them counts.
    if (name !== null) throw new Malformed("server_name is given twice");
    name = hostNameOf(content);
  }
  return name;
}

function hostNameOf(content: Reader): string {
  const list = content.vector(2);
  if (list.number(1) !== NAME_TYPE_HOST) throw new Malformed("server_name is of an unknown type");
  const name = list.vector(2).rest().toString("latin1");
  if (!list.isAtEnd || !content.isAtEnd) throw new Malformed("server_name holds more than one name");
  return name;
}

/** The presentation language of RFC 8446 section 3: numbers, and vectors with their length in front. */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  number(size: 1 | 2): number {
    return this.#take(size).readUIntBE(0, size);
  }

  vector(lengthSize: 1 | 2): Reader {
    return new Reader(this.#take(this.number(lengthSize)));
  }

  skip(count: number): void {
    this.#take(count);
  }

  rest(): Buffer {
    return this.#take(this.#bytes.length - this.#at);
  }

  #take(count: number): Buffer {
    if (this.#bytes.length - this.#at < count) throw new Malformed("the ClientHello ends within a field");
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }
}
