/** X.509 certificates (RFC 5280) over P-256 keys, written in DER (ITU-T X.690) for the few fields that we use. */
import { createHash, type KeyObject, randomBytes, sign } from "node:crypto";
import type { Host } from "#core/policy/host.ts";

export type CertificateFields = {
  /** Common names: 64 characters at most. */
  subject: string;
  issuer: string;
  notBefore: Date;
  notAfter: Date;
  /** DER of the SubjectPublicKeyInfo. */
  publicKey: Buffer;
  extensions: Buffer[];
};

/** PEM of the certificate, with a serial number that no other one has. @param signingKey the issuer's, on P-256 */
export function signCertificate(fields: CertificateFields, signingKey: KeyObject): string {
  const { subject, issuer, notBefore, notAfter, publicKey, extensions } = fields;
  const body = sequence(
    der(0xa0, integer(2)), // version 3
    der(0x02, randomSerial()),
    ECDSA_WITH_SHA256,
    commonName(issuer),
    sequence(time(notBefore), time(notAfter)),
    commonName(subject),
    publicKey,
    der(0xa3, sequence(...extensions)),
  );
  const signature = sign("sha256", body, signingKey);
  return pem("CERTIFICATE", sequence(body, ECDSA_WITH_SHA256, bitString(signature)));
}

/** Section 4.2.1.9. @param pathLength so many authorities may stand below this one; null for no authority */
export function basicConstraints(pathLength: number | null): Buffer {
  return extension("2.5.29.19", sequence(...(pathLength === null ? [] : [TRUE, integer(pathLength)])), true);
}

/** Section 4.2.1.3. */
export function keyUsage(...uses: KeyUse[]): Buffer {
  const bits: number[] = uses.map((use) => KEY_USE[use]);
  const byte = bits.reduce((all, bit) => all | (0x80 >> bit), 0);
  return extension("2.5.29.15", bitString(Buffer.of(byte), 7 - Math.max(...bits)), true);
}

/** Section 4.2.1.12, with one purpose: to be the server of a TLS connection. */
export function serverAuthentication(): Buffer {
  return extension("2.5.29.37", sequence(objectIdentifier("1.3.6.1.5.5.7.3.1")));
}

/** Section 4.2.1.6. An address in a URL is matched against iPAddress only (RFC 9110 section 4.3.5). */
export function alternativeName(host: Host): Buffer {
  const name =
    host.kind === "name" ? der(0x82, Buffer.from(host.text)) : der(0x87, Buffer.from(host.address));
  return extension("2.5.29.17", sequence(name));
}

/** Section 4.2.1.2. */
export function subjectKeyIdentifier(publicKey: Buffer): Buffer {
  return extension("2.5.29.14", der(0x04, keyIdentifier(publicKey)));
}

/** Section 4.2.1.1. @param publicKey of the issuer */
export function authorityKeyIdentifier(publicKey: Buffer): Buffer {
  return extension("2.5.29.35", sequence(der(0x80, keyIdentifier(publicKey))));
}

const KEY_USE = { digitalSignature: 0, keyCertSign: 5, cRLSign: 6 } as const;
type KeyUse = keyof typeof KEY_USE;

const TRUE = Buffer.of(0x01, 0x01, 0xff);
const ECDSA_WITH_SHA256 = sequence(objectIdentifier("1.2.840.10045.4.3.2")); // RFC 5758 section 3.2

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return sequence(objectIdentifier(id), ...(isCritical ? [TRUE] : []), der(0x04, value));
}

/** Of the whole SubjectPublicKeyInfo, in the length that everybody expects (RFC 7093 section 2, method 4). */
function keyIdentifier(publicKey: Buffer): Buffer {
  return createHash("sha256").update(publicKey).digest().subarray(0, 20);
}

/** Positive and unpredictable, 128 bits (section 4.1.2.2). */
function randomSerial(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = (bytes[0]! & 0x7f) | 0x40;
  return bytes;
}

function commonName(text: string): Buffer {
  return sequence(der(0x31, sequence(objectIdentifier("2.5.4.3"), der(0x0c, Buffer.from(text)))));
}

/** Years before 2050 have two digits (section 4.1.2.5). */
function time(date: Date): Buffer {
  const text = date.toISOString().replace(/[-:T]|\.\d+/g, "");
  return date.getUTCFullYear() < 2050 ? der(0x17, Buffer.from(text.slice(2))) : der(0x18, Buffer.from(text));
}

function objectIdentifier(text: string): Buffer {
  const [first, second, ...others] = text.split(".").map(Number) as [number, number, ...number[]];
  const bytes = [first * 40 + second];
  for (const number of others) {
    const digits = [number & 0x7f];
    for (let rest = number >>> 7; rest > 0; rest >>>= 7) digits.unshift((rest & 0x7f) | 0x80);
    bytes.push(...digits);
  }
  return der(0x06, Buffer.from(bytes));
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, ...parts);
}

/** @param value below 128 */
function integer(value: number): Buffer {
  return der(0x02, Buffer.of(value));
}

/** @param unusedBits of the last byte */
function bitString(bytes: Buffer, unusedBits = 0): Buffer {
  return der(0x03, Buffer.of(unusedBits), bytes);
}

/** Tag, length and content; lengths past 127 say first how many bytes they take (X.690 section 8.1.3). */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const length = size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Buffer.of(tag, ...length), ...parts]);
}

function pem(label: string, content: Buffer): string {
  const lines = content.toString("base64").replace(/.{64}(?=.)/g, "$&\n");
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`;
}
