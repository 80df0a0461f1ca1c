/**
 * Ids are a type prefix and a ULID (26 characters of Crockford base 32, time first), so that they sort by
 * creation and an id in a log names its kind. Brands keep a task id from being passed as a lease id.
 */
declare const brand: unique symbol;
type Id<Kind extends string> = string & { readonly [brand]: Kind };

export type TaskId = Id<"task">;
export type LeaseId = Id<"lease">;
export type ExecutorId = Id<"executor">;
export type KeyId = Id<"key">;
export type AttestationId = Id<"attestation">;

const PREFIX = { task: "task", lease: "lease", executor: "exec", key: "key", attestation: "att" } as const;
type Kind = keyof typeof PREFIX;

const CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz";

/** A new id of the kind: 48 bits of Unix milliseconds, then 80 random bits. */
export function newId<K extends Kind>(kind: K, nowMs: number = Date.now()): Id<K> {
  let text = "";
  let time = nowMs;
  for (let i = 0; i < 10; i++) {
    text = CROCKFORD[time % 32] + text;
    time = Math.floor(time / 32);
  }
  for (let i = 0; i < 16; i++) text += CROCKFORD[randomByte() % 32];
  return `${PREFIX[kind]}_${text}` as Id<K>;
}

/** Random bytes that no id has used yet. Each call of the generator costs more than all else in an id. */
const pool = new Uint8Array(4096);
let used = pool.length;

function randomByte(): number {
  if (used === pool.length) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  return pool[used++]!;
}

/** The pattern an id of the kind has on the wire. */
export function idPattern(kind: Kind): RegExp {
  return new RegExp(`^${PREFIX[kind]}_[0-9a-hjkmnp-tv-z]{26}$`);
}

const DIGEST = /^sha256:[0-9a-f]{64}$/;

/** `sha256:` and 64 hexadecimal digits: the address of immutable content. */
export type Digest = `sha256:${string}`;

export function isDigest(text: string): text is Digest {
  return DIGEST.test(text);
}
