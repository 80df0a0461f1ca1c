import { createHmac, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { canonicalJson } from "#core/json.ts";
import { LIMITS } from "#core/limits.ts";
import { type AttestationClaims, TYP } from "#core/wire/attestations.ts";
import { createFileSigner } from "#gateway/node/file-signer.ts";
import type { Signer } from "#gateway/ports.ts";
import {
  finishedAttempt,
  forgeJws,
  ISSUER,
  issuedAttestation,
  NOW_MS,
  TestExecutor,
} from "#test/support/attestation.ts";
import { signEvidence, verifyEvidence } from "#trace/attestation/evidence.ts";
import { readJwks } from "#trace/attestation/keys.ts";
import { verifyAttestation } from "#trace/attestation/verify.ts";

type Issued = Awaited<ReturnType<typeof issuedAttestation>>;

const signers: Record<Signer["alg"], Signer> = {
  EdDSA: createFileSigner(generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" })),
  ES256: createFileSigner(
    generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" }),
  ),
};
const { EdDSA: signer } = signers;
let issued: Issued;
let claims: AttestationClaims;

beforeAll(async () => {
  issued = await issuedAttestation({ signer });
  claims = await verifyAttestation(issued.attestation.jwt, {
    jwks: issued.jwks,
    issuer: ISSUER,
    now: NOW_MS,
  });
});

/** A token signed by the right key, with another header or other claims. */
const token = (
  changes: { header?: object; claims?: object; payload?: string; headerText?: string } = {},
  by: Signer = signer,
) =>
  forgeJws(
    changes.headerText ?? { alg: by.alg, kid: by.kid, typ: TYP.attestation, ...changes.header },
    changes.payload ?? { ...claims, ...changes.claims },
    (bytes) => by.sign(bytes),
  );

const verify = (
  jwt: string,
  options: {
    now?: number;
    leewayS?: number;
    nonce?: string;
    issuer?: string;
    jwks?: { keys: unknown[] };
  } = {},
) => verifyAttestation(jwt, { jwks: issued.jwks, issuer: ISSUER, now: NOW_MS, ...options });

const refused = (code: string, message: RegExp) =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

test("a genuine attestation verifies; with the client's nonce; another nonce or issuer is refused", async () => {
  expect(await verify(await token(), { nonce: "client-nonce-1" })).toEqual(claims);
  await expect(verify(await token(), { nonce: "client-nonce-2" })).rejects.toEqual(
    refused("ATTESTATION_INVALID", /eat_nonce is "client-nonce-1", expected "client-nonce-2"/),
  );
  await expect(verify(await token({ claims: { eat_nonce: undefined } }), { nonce: "n" })).rejects.toEqual(
    refused("ATTESTATION_INVALID", /eat_nonce is absent/),
  );
  await expect(verify(await token(), { issuer: "https://other.example" })).rejects.toEqual(
    refused("ATTESTATION_INVALID", /iss is "https:\/\/dsec.example"/),
  );
  // no prefix, suffix or case variant of the issuer will do
  for (const iss of [`${ISSUER}/`, ISSUER.toUpperCase(), `${ISSUER}.evil`]) {
    await expect(verify(await token({ claims: { iss } }))).rejects.toEqual(
      refused("ATTESTATION_INVALID", /iss is/),
    );
  }
});

test.each(["EdDSA", "ES256"] as const)(
  "one bit flipped anywhere in an attestation is refused (%s)",
  async (alg) => {
    const { attestation, keys } = await issuedAttestation({ signer: signers[alg] });
    const jwks = await readJwks(keys.jwks());
    const accepted = await acceptedFlips(attestation.jwt, (jwt) =>
      verifyAttestation(jwt, { jwks, issuer: ISSUER, now: NOW_MS }),
    );
    expect(accepted).toEqual([]);
  },
);

test("one bit flipped anywhere in evidence is refused", async () => {
  const executor = new TestExecutor();
  const jws = await executor.sendEvidence((await finishedAttempt(executor)).evidence);
  expect(await acceptedFlips(jws, (flipped) => verifyEvidence(flipped, executor.publicKey))).toEqual([]);
});

/** Tries every bit of every byte; returns the places where the changed text was not refused as it should be. */
async function acceptedFlips(text: string, check: (text: string) => Promise<unknown>): Promise<string[]> {
  await check(text);
  const refusals = [
    "EVIDENCE_INVALID",
    "ATTESTATION_INVALID",
    "UNKNOWN_SIGNING_KEY",
    "UNSUPPORTED_ALGORITHM",
  ];
  const verdicts = async (byte: number) =>
    Promise.all(
      Array.from({ length: 8 }, async (_, bit) => {
        const bytes = Buffer.from(text, "latin1");
        bytes[byte]! ^= 1 << bit;
        const verdict = await check(bytes.toString("latin1")).then(
          () => "accepted",
          (error) => error.code,
        );
        return refusals.includes(verdict) ? [] : [`byte ${byte}, bit ${bit}: ${verdict}`];
      }),
    );
  const accepted: string[] = [];
  for (let byte = 0; byte < text.length; byte++) accepted.push(...(await verdicts(byte)).flat());
  return accepted;
}

describe("a header that asks for what the profile does not name is refused (RFC 7515, RFC 8725)", () => {
  test.each<[string, object]>([
    ["an unknown critical extension", { crit: ["exp"], exp: 1 }],
    ["an empty crit", { crit: [] }],
    ["an unencoded payload", { b64: false, crit: ["b64"] }],
    ["a key of its own", { jwk: signer.publicJwk }],
    ["a key set of its own", { jku: "http://127.0.0.1:1/jwks.json" }],
    ["a certificate", { x5c: ["MIIB"] }],
    ["a certificate's URL", { x5u: "http://127.0.0.1:1/x" }],
    ["a thumbprint", { "x5t#S256": "AAAA" }],
    ["compression", { zip: "DEF" }],
    ["a content type", { cty: "JWT" }],
    ["__proto__", JSON.parse('{"__proto__":{"alg":"none"}}')],
  ])("%s", async (_, header) => {
    await expect(verify(await token({ header }))).rejects.toEqual(
      refused("ATTESTATION_INVALID", /header member .* is not in the profile/),
    );
  });

  test.each<[string, string | undefined]>([
    ["JWT", "JWT"],
    ["none", undefined],
    ["that of evidence", TYP.evidence],
    ["that of a lease token", TYP.executor],
    ["another case", TYP.attestation.toUpperCase()],
    ["the media type written out", `application/${TYP.attestation}`],
  ])("typ %s", async (_, typ) => {
    await expect(verify(await token({ header: { typ } }))).rejects.toEqual(
      refused("ATTESTATION_INVALID", /typ is/),
    );
  });

  test.each<[string, unknown]>([
    ["absent", undefined],
    ["empty", ""],
    ["a number", 7],
    ["a list", [signer.kid]],
    ["huge", "k".repeat(400)],
  ])("kid %s", async (_, kid) => {
    await expect(verify(await token({ header: { kid } }))).rejects.toEqual(
      refused("ATTESTATION_INVALID", /kid is/),
    );
  });

  test("a kid that the JWKS does not have", async () => {
    await expect(verify(await token({ header: { kid: "somebody-else" } }))).rejects.toEqual(
      refused("UNKNOWN_SIGNING_KEY", /no usable key "somebody-else"/),
    );
  });

  test("a header with one name twice, or not an object", async () => {
    const twice = `{"alg":"none","alg":"EdDSA","kid":"${signer.kid}","typ":"${TYP.attestation}"}`;
    await expect(verify(await token({ headerText: twice }))).rejects.toEqual(
      refused("ATTESTATION_INVALID", /"alg" is repeated/),
    );
    for (const headerText of ["[]", "null", '"EdDSA"', "1", "", "{"]) {
      await expect(verify(await token({ headerText }))).rejects.toEqual(
        refused("ATTESTATION_INVALID", /header of attestation/),
      );
    }
  });
});

describe("the key fixes the algorithm (B49)", () => {
  const never = { find: () => Promise.reject(new Error("the key set was asked for")) };

  test("no other algorithm is looked at, and nothing is fetched for one", async () => {
    const algorithms = [
      "none",
      "None",
      "NONE",
      "nOnE",
      "",
      "HS256",
      "RS256",
      "PS256",
      "ES256K",
      "ES384",
      "ES512",
      "Ed448",
      "eddsa",
      "EDDSA",
      "es256",
      "Ed25519",
      7,
      null,
      undefined,
      ["EdDSA"],
    ];
    for (const alg of algorithms) {
      const jwt = await token({ header: { alg } });
      await expect(verifyAttestation(jwt, { jwks: never, issuer: ISSUER, now: NOW_MS })).rejects.toEqual(
        refused("UNSUPPORTED_ALGORITHM", /^attestation: alg/),
      );
    }
  });

  test("the public key in any spelling is no HMAC secret", async () => {
    const key = createPublicKey({ key: signer.publicJwk, format: "jwk" });
    const secrets = [
      key.export({ format: "pem", type: "spki" }),
      key.export({ format: "der", type: "spki" }),
      JSON.stringify(signer.publicJwk),
      Buffer.from((signer.publicJwk as { x: string }).x, "base64url"),
    ];
    for (const alg of ["HS256", "EdDSA", "ES256"]) {
      for (const secret of secrets) {
        const jwt = await forgeJws({ alg, kid: signer.kid, typ: TYP.attestation }, claims, (bytes) =>
          createHmac("sha256", secret).update(bytes).digest(),
        );
        await expect(verify(jwt)).rejects.toMatchObject({
          code: expect.stringMatching(/UNSUPPORTED_ALGORITHM|ATTESTATION_INVALID/),
        });
      }
    }
  });

  test("a token of one algorithm against a key of the other", async () => {
    const jwks = {
      keys: Object.values(signers).map(({ publicJwk, kid, alg }) => ({ ...publicJwk, kid, alg, use: "sig" })),
    };
    const crossed = await token({ header: { kid: signers.EdDSA.kid } }, signers.ES256);
    await expect(verify(crossed, { jwks })).rejects.toEqual(
      refused("UNSUPPORTED_ALGORITHM", /alg is ES256, but key .* is for EdDSA/),
    );
    const renamed = await token({ header: { alg: "ES256" } }, signers.EdDSA);
    await expect(verify(renamed, { jwks })).rejects.toEqual(refused("UNSUPPORTED_ALGORITHM", /is for EdDSA/));
  });

  test("a key that says it is for another algorithm or use is not used", async () => {
    for (const change of [
      { alg: "ES256" },
      { alg: "HS256" },
      { use: "enc" },
      { key_ops: ["sign"] },
      { d: "AAAA" },
      { k: "AAAA" },
    ]) {
      const jwks = { keys: [{ ...issued.jwks.keys[0], ...change }] };
      await expect(verify(await token(), { jwks })).rejects.toEqual(
        refused("UNKNOWN_SIGNING_KEY", /is not usable/),
      );
    }
  });

  test("an ES256 signature in DER, or one that is empty or cut, is refused", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const jwks = { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "es" }] };
    const header = { alg: "ES256", kid: "es", typ: TYP.attestation };
    const raw = (bytes: Uint8Array) => sign("sha256", bytes, { key: privateKey, dsaEncoding: "ieee-p1363" });
    expect(await verify(await forgeJws(header, claims, raw), { jwks })).toEqual(claims);
    for (const forged of [
      (bytes: Uint8Array) => sign("sha256", bytes, privateKey),
      (bytes: Uint8Array) => raw(bytes).subarray(0, 63),
      (bytes: Uint8Array) => Buffer.concat([raw(bytes), Buffer.alloc(1)]),
      () => new Uint8Array(0),
      () => new Uint8Array(64),
    ]) {
      await expect(verify(await forgeJws(header, claims, forged), { jwks })).rejects.toEqual(
        refused("ATTESTATION_INVALID", /signature/),
      );
    }
  });
});

describe("the times have exact edges and a tolerance at both of them (B51)", () => {
  const now = NOW_MS / 1000;
  const far = now + 1000;
  const cases: [string, { iat?: unknown; nbf?: unknown; exp?: unknown }, number, string][] = [
    ["nbf one second ahead, tolerance 2", { iat: now, nbf: now + 1, exp: far }, 2, "accepted"],
    ["nbf two seconds ahead, tolerance 2", { iat: now, nbf: now + 2, exp: far }, 2, "accepted"],
    ["nbf three seconds ahead, tolerance 2", { iat: now, nbf: now + 3, exp: far }, 2, "ATTESTATION_INVALID"],
    ["nbf now, no tolerance", { iat: now, nbf: now, exp: far }, 0, "accepted"],
    ["nbf one second ahead, no tolerance", { iat: now, nbf: now + 1, exp: far }, 0, "ATTESTATION_INVALID"],
    ["exp one second ahead, no tolerance", { iat: now - 9, nbf: now - 9, exp: now + 1 }, 0, "accepted"],
    ["exp exactly now, no tolerance", { iat: now - 9, nbf: now - 9, exp: now }, 0, "ATTESTATION_EXPIRED"],
    ["exp a second ago, tolerance 2", { iat: now - 9, nbf: now - 9, exp: now - 1 }, 2, "accepted"],
    ["exp exactly the tolerance ago", { iat: now - 9, nbf: now - 9, exp: now - 2 }, 2, "ATTESTATION_EXPIRED"],
    ["iat an hour ahead", { iat: now + 3600, nbf: now, exp: now + 9000 }, 5, "ATTESTATION_INVALID"],
    ["iat the tolerance ahead", { iat: now + 5, nbf: now, exp: far }, 5, "accepted"],
    ["exp before nbf", { iat: now, nbf: now, exp: now - 1 }, 60, "ATTESTATION_INVALID"],
    ...(["iat", "nbf", "exp"] as const).flatMap((name): typeof cases =>
      ([String(far), far + 0.5, -1, 1e20, null, true, [far], {}, undefined] as const).map((value) => [
        `${name} ${JSON.stringify(value) ?? "missing"}`,
        { iat: now, nbf: now, exp: far, [name]: value },
        5,
        "ATTESTATION_INVALID",
      ]),
    ),
  ];
  test.each(cases)("%s", async (_, times, leewayS, verdict) => {
    const found = await verify(await token({ claims: times }), { leewayS }).then(
      () => "accepted",
      (error) => error.code,
    );
    expect(found).toBe(verdict);
  });

  test("a fresh attestation is accepted by a clock that steps back five seconds between two calls", async () => {
    const { jwt } = issued.attestation;
    await verify(jwt, { now: NOW_MS });
    await verify(jwt, { now: NOW_MS - LIMITS.clockLeewayS * 1000 });
    await expect(verify(jwt, { now: NOW_MS - LIMITS.clockLeewayS * 1000 - 1 })).rejects.toEqual(
      refused("ATTESTATION_INVALID", /not valid before/),
    );
    await verify(jwt, { now: NOW_MS });
  });

  test("an attestation holds for its whole life and not a millisecond more", async () => {
    const { jwt } = issued.attestation;
    const endMs = NOW_MS + LIMITS.attestationTtlS * 1000;
    await verify(jwt, { now: endMs - 1, leewayS: 0 });
    await expect(verify(jwt, { now: endMs, leewayS: 0 })).rejects.toMatchObject({
      code: "ATTESTATION_EXPIRED",
    });
    await verify(jwt, { now: endMs + LIMITS.clockLeewayS * 1000 - 1 });
    await expect(verify(jwt, { now: endMs + LIMITS.clockLeewayS * 1000 })).rejects.toMatchObject({
      code: "ATTESTATION_EXPIRED",
    });
  });

  test("a verifier with no clock or a tolerance below zero is a mistake, not a yes", async () => {
    for (const options of [{ now: Number.NaN }, { leewayS: -1 }, { leewayS: Number.NaN }]) {
      await expect(verify(await token(), options)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    }
  });
});

describe("only the profile's claims are read", () => {
  test.each<[string, object]>([
    ["an unknown claim", { aud: "x" }],
    ["another profile", { eat_profile: "urn:dsec:eat-profile:attestation:2" }],
    ["no profile", { eat_profile: undefined }],
    ["a list of nonces", { eat_nonce: ["a", "b"] }],
    ["a subject that is no task", { sub: "lease_01j00000000000000000000000" }],
  ])("%s", async (_, changed) => {
    await expect(verify(await token({ claims: changed }))).rejects.toEqual(
      refused("ATTESTATION_INVALID", /claim/),
    );
  });

  test("a claim that stands twice, text after the claims, and a payload that is no object", async () => {
    const text = canonicalJson(claims);
    for (const payload of [
      text.replace("{", `{"sub":"${claims.sub}",`),
      `${text} {}`,
      "[]",
      "null",
      "",
      "\uFEFF{}",
      "[".repeat(100_000),
    ]) {
      await expect(verify(await token({ payload }))).rejects.toMatchObject({ code: "ATTESTATION_INVALID" });
    }
  });

  test("a text that is no compact JWS, or too long, is refused before it is parsed", async () => {
    const { jwt } = issued.attestation;
    const [header, payload, signature] = jwt.split(".");
    for (const text of [
      "",
      ".",
      "..",
      "...",
      "a.b",
      `${jwt}.`,
      `.${jwt}`,
      `${jwt}.${jwt}`,
      ` ${jwt}`,
      `${jwt}\n`,
      `${jwt}=`,
      `${header}.${payload}.`,
      `${header}..${signature}`,
      `${header}=.${payload}.${signature}`,
      JSON.stringify({ payload, signatures: [] }),
      "\u{1F600}.a.b",
    ]) {
      await expect(verify(text), text.slice(0, 20)).rejects.toMatchObject({ code: "ATTESTATION_INVALID" });
    }
    await expect(verify("a".repeat(LIMITS.jwtBytes + 1))).rejects.toEqual(
      refused("ATTESTATION_INVALID", /at most 524288 are read/),
    );
    await expect(verify(undefined as unknown as string)).rejects.toMatchObject({
      code: "ATTESTATION_INVALID",
    });
  });
});

describe("one key set serves all its good keys (B46)", () => {
  const good = () => issued.jwks.keys[0]!;
  const ec = signers.ES256.publicJwk as { kty: "EC"; crv: "P-256"; x: string; y: string };

  test("entries that cannot be used are skipped with a note", async () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export({ format: "jwk" });
    const entries = [
      { ...rsa, kid: "rsa", alg: "RS256", use: "sig" },
      { kty: "OKP", crv: "X25519", kid: "x", x: (signer.publicJwk as { x: string }).x },
      { kty: "AKP", kid: "post-quantum", alg: "ML-DSA-44", pub: "AAAA" },
      { kid: "no-kty", x: "AAAA" },
      { ...ec, kid: "off-curve", y: ec.x },
      { ...ec, kid: "short", x: ec.x.slice(0, 40) },
      { kty: "oct", kid: "secret", k: "AAAA" },
      { ...good(), kid: undefined },
      { ...good(), kid: 7 },
      7,
      null,
      "key",
      [],
    ];
    const { keys, notes } = await readJwks({ keys: [...entries, good()] });
    expect([...keys.keys()]).toEqual([signer.kid]);
    expect(notes).toHaveLength(entries.length);
    for (const [index, note] of notes.entries())
      expect(note).toMatch(new RegExp(`^key ${index} .*is not usable: .`));
    expect(await verify(await token(), { jwks: { keys: [...entries, good()] } })).toEqual(claims);
  });

  test("a kid that names two different keys names none; the same key twice is one", async () => {
    const other = { ...ec, kid: signer.kid };
    await expect(verify(await token(), { jwks: { keys: [good(), other] } })).rejects.toEqual(
      refused("UNKNOWN_SIGNING_KEY", /names two different keys/),
    );
    await expect(verify(await token(), { jwks: { keys: [other, good(), good()] } })).rejects.toMatchObject({
      code: "UNKNOWN_SIGNING_KEY",
    });
    expect(await verify(await token(), { jwks: { keys: [good(), good()] } })).toEqual(claims);
  });

  test("what is no key set, or a huge one, is refused as a whole", async () => {
    for (const jwks of [{ keys: Array(LIMITS.jwksKeys + 1).fill(good()) }, {}, { keys: {} }, null]) {
      await expect(readJwks(jwks)).rejects.toMatchObject({ code: "ATTESTATION_INVALID" });
    }
  });

  test("a key of small order, for which anybody can sign, is no key", async () => {
    for (const hex of ["00", "01", "80", "81"]) {
      const point = Buffer.alloc(32);
      point[0] = Number.parseInt(hex, 16) & 0x7f;
      point[31] = Number.parseInt(hex, 16) & 0x80;
      const { notes } = await readJwks({
        keys: [{ kty: "OKP", crv: "Ed25519", kid: hex, x: point.toString("base64url") }],
      });
      expect(notes[0]).toMatch(/small order/);
    }
    const executor = new TestExecutor();
    const { evidence } = await finishedAttempt(executor);
    // R = the neutral point and S = 0 verify for every message under the key whose point is neutral
    const forged = await signEvidence(evidence, () => Uint8Array.of(1, ...new Uint8Array(63)));
    const x = Buffer.from([1, ...new Uint8Array(31)]).toString("base64url");
    await expect(verifyEvidence(forged, { kty: "OKP", crv: "Ed25519", x })).rejects.toEqual(
      refused("EVIDENCE_INVALID", /small order/),
    );
  });
});
