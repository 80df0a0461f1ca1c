import "reflect-metadata";
import { createSecureContext, type SecureContext } from "node:tls";
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { LIMITS } from "#core/limits.ts";
import type { Host } from "#core/policy/host.ts";

/**
 * The certificate authority of one sandbox: what lets the loopback proxy open HTTPS that the sandbox's own programs
 * begin. Nobody but this sandbox trusts it, and its key is in this process's memory alone, in no form that leaves it.
 */
export class Authority {
  /** PEM of the CA's certificate, for the sandbox to trust. */
  readonly certificate: string;

  readonly #certificate: X509Certificate;
  readonly #signingKey: CryptoKey;
  /** Of every leaf: a key for each would cost more and keep nothing apart. */
  readonly #leafKeys: CryptoKeyPair;
  readonly #leafKeyPem: string;
  readonly #contexts = new Map<string, Promise<SecureContext>>();

  static async create(): Promise<Authority> {
    const [keys, leafKeys] = await Promise.all([generateKeys(false), generateKeys(true)]);
    const certificate = await X509CertificateGenerator.create({
      serialNumber: randomSerial(),
      subject: AUTHORITY_NAME,
      issuer: AUTHORITY_NAME,
      ...validity(),
      publicKey: keys.publicKey,
      signingKey: keys.privateKey,
      signingAlgorithm: SIGNATURE,
      extensions: [
        new BasicConstraintsExtension(true, 0, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
        await SubjectKeyIdentifierExtension.create(keys.publicKey),
      ],
    });
    const leafKey = await crypto.subtle.exportKey("pkcs8", leafKeys.privateKey);
    return new Authority(certificate, keys.privateKey, leafKeys, pem("PRIVATE KEY", leafKey));
  }

  private constructor(
    certificate: X509Certificate,
    signingKey: CryptoKey,
    leafKeys: CryptoKeyPair,
    leafKeyPem: string,
  ) {
    this.certificate = `${certificate.toString("pem")}\n`;
    this.#certificate = certificate;
    this.#signingKey = signingKey;
    this.#leafKeys = leafKeys;
    this.#leafKeyPem = leafKeyPem;
  }

  /** What a TLS server needs to be the host; its certificate is made once and kept. */
  contextFor(host: Host): Promise<SecureContext> {
    let context = this.#contexts.get(host.text);
    if (context === undefined) {
      // A wildcard rule lets a sandbox ask for any number of names.
      if (this.#contexts.size >= LIMITS.egressCertificates) this.#contexts.clear();
      context = this.#makeContext(host);
      this.#contexts.set(host.text, context);
    }
    return context;
  }

  async #makeContext(host: Host): Promise<SecureContext> {
    const leaf = await X509CertificateGenerator.create({
      serialNumber: randomSerial(),
      subject: LEAF_NAME,
      issuer: this.#certificate.subject,
      // Never beyond the CA's own, which would make the chain invalid in its last hour.
      notBefore: this.#certificate.notBefore,
      notAfter: this.#certificate.notAfter,
      publicKey: this.#leafKeys.publicKey,
      signingKey: this.#signingKey,
      signingAlgorithm: SIGNATURE,
      extensions: [
        new SubjectAlternativeNameExtension([alternativeName(host)]),
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
        await SubjectKeyIdentifierExtension.create(this.#leafKeys.publicKey),
        await AuthorityKeyIdentifierExtension.create(this.#certificate),
      ],
    });
    return createSecureContext({
      key: this.#leafKeyPem,
      cert: `${leaf.toString("pem")}\n${this.certificate}`,
      minVersion: "TLSv1.2",
    });
  }
}

const AUTHORITY_NAME = "CN=DSec sandbox authority";
/** Names are in the alternative name only: a common name holds 64 characters, a host up to 253. */
const LEAF_NAME = "CN=DSec loopback proxy";
const KEY = { name: "ECDSA", namedCurve: "P-256" };
const SIGNATURE = { name: "ECDSA", hash: "SHA-256" };

/** The longest task and a day: clocks on both sides are the same one, and no chain is good for longer than its sandbox. */
const LIFETIME_MS = LIMITS.timeoutMsMax + 24 * 3_600_000;

function validity(): { notBefore: Date; notAfter: Date } {
  const nowMs = Date.now();
  // An hour back, for a host whose clock is set back while the sandbox runs.
  return { notBefore: new Date(nowMs - 3_600_000), notAfter: new Date(nowMs + LIFETIME_MS) };
}

function generateKeys(extractable: boolean): Promise<CryptoKeyPair> {
  return crypto.subtle.generateKey(KEY, extractable, ["sign", "verify"]) as Promise<CryptoKeyPair>;
}

/** Positive and unpredictable, 128 bits (RFC 5280 section 4.1.2.2). */
function randomSerial(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[0] = (bytes[0]! & 0x7f) | 0x40;
  return Buffer.from(bytes).toString("hex");
}

/** An address in a URL is matched against iPAddress only (RFC 9110 section 4.3.5). */
function alternativeName(host: Host): { type: "dns" | "ip"; value: string } {
  if (host.kind === "name") return { type: "dns", value: host.text };
  return { type: "ip", value: host.text.startsWith("[") ? host.text.slice(1, -1) : host.text };
}

function pem(label: string, der: ArrayBuffer): string {
  const lines = Buffer.from(der)
    .toString("base64")
    .replace(/.{64}(?=.)/g, "$&\n");
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`;
}
