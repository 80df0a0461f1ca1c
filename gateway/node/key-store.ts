import { generateKeyPairSync, randomUUID } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { DsecError } from "#core/errors.ts";
import { parseJson } from "#core/json.ts";
import type { KeyRing, Signer } from "../ports.ts";
import { createKeyRing, type RetiredKey, retire } from "../signing/key-ring.ts";
import { createFileSigner } from "./file-signer.ts";

export type KeyStore = KeyRing & {
  /**
   * Retires the current key, puts the next one in its place and publishes a new next one. When two processes rotate
   * at once one rotation happens. A gateway that runs on the folder takes it up within `RELOAD_EVERY_MS`.
   */
  rotate(): void;
};

/** How soon a running gateway notices that another process rotated the keys. */
export const RELOAD_EVERY_MS = 2_000;

/**
 * The key ring kept in a folder: `ring-<n>.json`, mode 0600, one file for each generation and the highest in force.
 * A generation is written whole under another name and then linked, so it is there entirely or not at all, and of
 * two writers the second one finds the name taken and reads what the first one wrote.
 *
 * A folder without any generation gets its first keys. A generation that does not read is refused, never replaced:
 * new keys would make every gateway after this one a stranger to those who hold its attestations.
 * @param now milliseconds since the epoch
 */
export function openKeyStore(
  folder: string,
  options: { alg?: Signer["alg"]; now?: () => number; log?: (message: string) => void } = {},
): KeyStore {
  const { alg = "EdDSA", now = Date.now, log = () => {} } = options;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw broken(
      folder,
      `cannot be made (${(error as NodeJS.ErrnoException).code})`,
      "name another data folder",
    );
  }
  let ring = loadLatest(folder, now) ?? createFirst(folder, alg, now);
  let checkedAtMs = now();

  /** Cheap enough to be asked before every signature: one look at the folder every RELOAD_EVERY_MS. */
  const latest = (): Loaded => {
    const elapsedMs = now() - checkedAtMs;
    if (elapsedMs >= 0 && elapsedMs < RELOAD_EVERY_MS) return ring;
    checkedAtMs = now();
    try {
      if (latestGeneration(folder) !== ring.generation) ring = loadLatest(folder, now) ?? ring;
    } catch (error) {
      // the keys in memory are good; stopping would turn a half-copied folder into an outage
      log(
        `signing keys in ${folder} did not reload; the ones in memory stay in force: ${(error as Error).message}`,
      );
    }
    return ring;
  };

  return {
    current: () => latest().keys.current(),
    jwks: () => latest().keys.jwks(),
    rotate() {
      const before = loadLatest(folder, now);
      if (!before) throw broken(folder, "holds no generation any more", "restore it from a backup");
      const { current, next, retired } = before.stored;
      writeGeneration(folder, before.generation + 1, {
        version: 1,
        current: next,
        next: newPrivateJwk(next.alg),
        retired: [...retired, retire(createFileSigner(current), now())].filter(
          (key) => now() < key.publishedUntilMs,
        ),
      });
      ring = loadLatest(folder, now)!;
      // the private half of the retired key must not outlive its use
      for (const old of generations(folder).filter((number) => number < ring.generation)) {
        rmSync(join(folder, fileName(old)), { force: true });
      }
    },
  };
}

const coordinate = z.string().regex(/^[A-Za-z0-9_-]{43}$/);
const PrivateJwkSchema = z.discriminatedUnion("kty", [
  z.strictObject({
    alg: z.literal("EdDSA"),
    kty: z.literal("OKP"),
    crv: z.literal("Ed25519"),
    x: coordinate,
    d: coordinate,
  }),
  z.strictObject({
    alg: z.literal("ES256"),
    kty: z.literal("EC"),
    crv: z.literal("P-256"),
    x: coordinate,
    y: coordinate,
    d: coordinate,
  }),
]);
type PrivateJwk = z.infer<typeof PrivateJwkSchema>;

const RingSchema = z.strictObject({
  version: z.literal(1),
  current: PrivateJwkSchema,
  next: PrivateJwkSchema,
  retired: z.array(
    z.strictObject({
      alg: z.enum(["EdDSA", "ES256"]),
      kid: coordinate,
      publicJwk: z.discriminatedUnion("kty", [
        z.strictObject({ kty: z.literal("OKP"), crv: z.literal("Ed25519"), x: coordinate }),
        z.strictObject({ kty: z.literal("EC"), crv: z.literal("P-256"), x: coordinate, y: coordinate }),
      ]),
      publishedUntilMs: z.number().int(),
    }),
  ),
});
type StoredRing = { version: 1; current: PrivateJwk; next: PrivateJwk; retired: RetiredKey[] };
type Loaded = { generation: number; stored: StoredRing; keys: KeyRing };

function createFirst(folder: string, alg: Signer["alg"], now: () => number): Loaded {
  writeGeneration(folder, 1, {
    version: 1,
    current: newPrivateJwk(alg),
    next: newPrivateJwk(alg),
    retired: [],
  });
  return loadLatest(folder, now)!;
}

function loadLatest(folder: string, now: () => number): Loaded | null {
  const generation = latestGeneration(folder);
  if (generation === 0) return null;
  const path = join(folder, fileName(generation));
  let mode: number;
  let bytes: Uint8Array;
  try {
    mode = statSync(path).mode & 0o777;
    bytes = readFileSync(path);
  } catch (error) {
    // another process may have rotated between our look at the folder and at the file
    if (latestGeneration(folder) > generation) return loadLatest(folder, now);
    throw broken(path, `cannot be read (${(error as NodeJS.ErrnoException).code})`, "mend its permissions");
  }
  if (mode & 0o077) {
    throw broken(path, `has mode ${mode.toString(8)}: others can read the private key`, `chmod 600 ${path}`);
  }
  const remedy = "restore it from a backup; delete it only if no attestation of this gateway is in use";
  try {
    const stored = RingSchema.parse(parseJson(bytes, path));
    const keys = createKeyRing({
      current: createFileSigner(stored.current),
      next: createFileSigner(stored.next),
      retired: stored.retired,
      now,
    });
    return { generation, stored, keys };
  } catch (error) {
    // only our own words: the parser's message quotes the text, and the text is a private key
    const why =
      error instanceof z.ZodError ? `member ${error.issues[0]?.path.join(".")} is wrong` : "is damaged";
    throw broken(path, why, remedy);
  }
}

/** Writes one generation whole, or leaves the one that somebody else wrote first. */
function writeGeneration(folder: string, generation: number, ring: StoredRing): void {
  const draft = join(folder, `.draft-${randomUUID()}`);
  try {
    const file = openSync(draft, "wx", 0o600);
    try {
      writeSync(file, `${JSON.stringify(ring, null, 2)}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    linkSync(draft, join(folder, fileName(generation)));
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (code !== "EEXIST") {
      throw broken(
        folder,
        `cannot be written (${syscall} ${code})`,
        "it must be writable and allow hard links",
      );
    }
  } finally {
    rmSync(draft, { force: true });
  }
  // the name must be as durable as the bytes before any token is signed with the key
  const directory = openSync(folder, "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

function newPrivateJwk(alg: Signer["alg"]): PrivateJwk {
  const { privateKey } =
    alg === "EdDSA" ? generateKeyPairSync("ed25519") : generateKeyPairSync("ec", { namedCurve: "P-256" });
  return PrivateJwkSchema.parse({ ...privateKey.export({ format: "jwk" }), alg });
}

function fileName(generation: number): string {
  return `ring-${String(generation).padStart(6, "0")}.json`;
}

function generations(folder: string): number[] {
  return readdirSync(folder).flatMap((name) => {
    const number = /^ring-(\d{6,15})\.json$/.exec(name)?.[1];
    return number ? [Number(number)] : [];
  });
}

function latestGeneration(folder: string): number {
  return Math.max(0, ...generations(folder));
}

function broken(path: string, why: string, remedy: string): DsecError {
  return new DsecError("CONFIG_INVALID", `signing keys ${path}: ${why}; ${remedy}`);
}
