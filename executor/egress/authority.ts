import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { createSecureContext, type SecureContext } from "node:tls";
import { LIMITS } from "#core/limits.ts";
import type { Host } from "#core/policy/host.ts";
import {
  alternativeName,
  authorityKeyIdentifier,
  basicConstraints,
  keyUsage,
  serverAuthentication,
  signCertificate,
  subjectKeyIdentifier,
} from "./certificate.ts";

/**
 * The certificate authority of one sandbox: what lets the loopback proxy open HTTPS that the sandbox's own programs
 * begin. Nobody but this sandbox trusts it, and its key is in this process's memory alone. Making one takes a third of
 * a millisecond of processor time, and each name that is asked for twice as much.
 */
export class Authority {
  /** PEM of the CA's certificate, for the sandbox to trust. */
  readonly certificate: string;

  readonly #keys = generateKeys();
  readonly #madeAtMs = Date.now();
  readonly #validity = validityFrom(this.#madeAtMs);
  /** Of every leaf: a key for each would cost more and keep nothing apart. Most sandboxes need none. */
  #leafKeys: { publicKey: Buffer; privateKeyPem: string } | null = null;
  readonly #contexts = new Map<string, SecureContext>();

  constructor() {
    const { publicKey, privateKey } = this.#keys;
    const fields = {
      subject: AUTHORITY_NAME,
      issuer: AUTHORITY_NAME,
      ...this.#validity,
      publicKey,
      extensions: [basicConstraints(0), keyUsage("keyCertSign", "cRLSign"), subjectKeyIdentifier(publicKey)],
    };
    this.certificate = signCertificate(fields, privateKey);
  }

  /** Whether a sandbox that begins now may have it: it is not from the future, where the clock was set back, nor half a day old. */
  get isFresh(): boolean {
    const ageMs = Date.now() - this.#madeAtMs;
    return ageMs >= 0 && ageMs < FRESH_MS;
  }

  /** What a TLS server needs to be the host; its certificate is made once and kept. */
  contextFor(host: Host): SecureContext {
    let context = this.#contexts.get(host.text);
    if (context === undefined) {
      // A wildcard rule lets a sandbox ask for any number of names.
      if (this.#contexts.size >= LIMITS.egressCertificates) this.#contexts.clear();
      context = this.#makeContext(host);
      this.#contexts.set(host.text, context);
    }
    return context;
  }

  #makeContext(host: Host): SecureContext {
    this.#leafKeys ??= generateLeafKeys();
    const { publicKey, privateKeyPem } = this.#leafKeys;
    const fields = {
      subject: LEAF_NAME,
      issuer: AUTHORITY_NAME,
      // Never beyond the CA's own, which would make the chain invalid in its last hour.
      ...this.#validity,
      publicKey,
      extensions: [
        alternativeName(host),
        basicConstraints(null),
        keyUsage("digitalSignature"),
        serverAuthentication(),
        subjectKeyIdentifier(publicKey),
        authorityKeyIdentifier(this.#keys.publicKey),
      ],
    };
    return createSecureContext({
      key: privateKeyPem,
      cert: `${signCertificate(fields, this.#keys.privateKey)}${this.certificate}`,
      minVersion: "TLSv1.2",
    });
  }
}

const AUTHORITY_NAME = "DSec sandbox authority";
/** Names are in the alternative name only: a common name holds 64 characters, a host up to 253. */
const LEAF_NAME = "DSec loopback proxy";

/** The longest task and a day: clocks on both sides are the same one, and no chain is good for much longer than its sandbox. */
const LIFETIME_MS = LIMITS.timeoutMsMax + 24 * 3_600_000;
/** Before its sandbox begins: what is left is longer than any task. */
const FRESH_MS = 12 * 3_600_000;

function validityFrom(nowMs: number): { notBefore: Date; notAfter: Date } {
  // An hour back, for a host whose clock is set back while the sandbox runs.
  return { notBefore: new Date(nowMs - 3_600_000), notAfter: new Date(nowMs + LIFETIME_MS) };
}

function generateKeys(): { publicKey: Buffer; privateKey: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { publicKey: publicKey.export({ type: "spki", format: "der" }), privateKey };
}

function generateLeafKeys(): { publicKey: Buffer; privateKeyPem: string } {
  const { publicKey, privateKey } = generateKeys();
  return { publicKey, privateKeyPem: privateKey.export({ type: "pkcs8", format: "pem" }) as string };
}
