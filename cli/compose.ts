import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { SCOPES } from "#core/wire/keys.ts";
import { mintKey } from "#gateway/auth-keys.ts";
import { openDiskBlobs } from "#gateway/node/disk-blobs.ts";
import { openKeyStore } from "#gateway/node/key-store.ts";
import { openSecretKey } from "#gateway/node/secret-key.ts";
import { type RunningGateway, startGateway } from "#gateway/node/server.ts";
import type { KeyRing } from "#gateway/ports.ts";
import { createStore } from "#gateway/store/store.ts";
import {
  type DataFolder,
  lockDataFolder,
  makeDataFolder,
  readAdminKey,
  removeServing,
  unusable,
  writeAdminKey,
  writeServing,
} from "./data-folder.ts";
import type { Log } from "./log.ts";

export const DEFAULT_PORT = 7330;
/** What attestations of an embedded gateway name as their issuer, whatever port it happens to listen on. */
export const DEFAULT_ISSUER = `http://127.0.0.1:${DEFAULT_PORT}`;

export type GatewaySettings = {
  data: string;
  host: string;
  /** 0 takes a free one. */
  port: number;
  issuer?: string | undefined;
  /** A PostgreSQL URL; the embedded database in the data folder where it is absent. */
  database?: string | undefined;
  /** The folder of blobs and keys that all gateways on the database have; the data folder where it is absent. */
  shared?: string | undefined;
  keys?: ((folder: DataFolder) => Promise<KeyRing>) | undefined;
  /** Addresses and blocks that tasks' policies may open although they are not public. */
  privateNetworks?: string[] | undefined;
  /** Path of a file of authorities that upstreams may be certified by beside Mozilla's, in PEM. */
  upstreamCa?: string | undefined;
  log: Log;
};

export type OpenGateway = {
  gateway: RunningGateway;
  folder: DataFolder;
  issuer: string;
  /** A key with every scope, kept in the data folder. */
  adminKey: string;
  close(): Promise<void>;
};

/** A gateway that serves, over a data folder that is this process's alone until `close`. */
export async function openGateway(settings: GatewaySettings): Promise<OpenGateway> {
  const { log } = settings;
  const folder = makeDataFolder(settings.data);
  const shared = settings.shared === undefined ? folder : makeDataFolder(settings.shared);
  const closers: (() => unknown)[] = [];
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const lock = await lockDataFolder(folder);
    closers.push(() => lock.release());

    const { sql, wake } = await openDatabase(folder, settings);
    closers.push(() => wake.close());
    const store = createStore({ sql, wake });
    closers.push(() => store.close());

    const secretCipher = await openSecretKey(shared.signingKeys);
    // An embedded database lies in the folder that has the key.
    if (settings.database !== undefined && !(await store.claimSecretsKey(secretCipher.keyDigest)))
      throw belongsElsewhere(shared);
    const adminKey = readAdminKey(folder) ?? (await mintAdminKey(folder, store));
    const blobs = await openDiskBlobs(shared.blobs);
    const keys = settings.keys
      ? await settings.keys(shared)
      : openKeyStore(shared.signingKeys, { log: (message) => log({ level: "warn", message }) });
    const issuer = settings.issuer ?? DEFAULT_ISSUER;
    const gateway = await startGateway({
      ports: {
        store,
        wake,
        blobs,
        keys,
        secretCipher,
        log,
        now: Date.now,
        config: {
          issuer,
          rateRequestsPerS: LIMITS.rateRequestsPerS,
          rateBurst: LIMITS.rateBurst,
          privateNetworks: settings.privateNetworks,
        },
      },
      host: settings.host,
      port: settings.port,
      upstreamAuthorities: readAuthorities(settings.upstreamCa),
    });
    closers.push(() => gateway.close());
    writeServing(folder, gateway.url);
    closers.push(() => removeServing(folder));
    return { gateway, folder, issuer, adminKey, close };
  } catch (error) {
    await close();
    const refusedByFiles = error instanceof Error && "code" in error && /^E[A-Z]+$/.test(String(error.code));
    throw refusedByFiles ? unusable(folder, error) : error;
  }
}

function belongsElsewhere({ path }: DataFolder): DsecError {
  return new DsecError(
    "CONFIG_INVALID",
    `the database is served with the blobs and keys of another folder than ${path}: a second gateway would neither find the content nor open the secrets; ` +
      "name that folder (--shared, or --data). If it is lost, and with it what it held: delete from secrets_key, and start again",
  );
}

function readAuthorities(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  const refused = (why: string) =>
    new DsecError("CONFIG_INVALID", `--upstream-ca ${path}: ${why}; name a file of certificates in PEM`);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw refused(`it cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  try {
    createSecureContext({ ca: text });
  } catch {
    throw refused("it holds something else");
  }
  if (!text.includes("-----BEGIN CERTIFICATE-----")) throw refused("it holds no certificate");
  return text;
}

async function openDatabase(folder: DataFolder, settings: GatewaySettings) {
  const listenLog = (event: Parameters<Log>[0]) => settings.log(event);
  if (settings.database !== undefined) {
    const { openPostgres } = await import("#gateway/node/postgres.ts");
    try {
      return await openPostgres(settings.database, { log: listenLog });
    } catch (cause) {
      if (!(cause instanceof DsecError) || cause.code !== "STORE_UNAVAILABLE") throw cause;
      const { host, pathname } = new URL(settings.database);
      const why = cause.message.replace(/; .*/, "");
      throw new DsecError(
        cause.code,
        `${host}${pathname}: ${why}; start it or mend --database (dsec doctor --database looks closer)`,
        { cause },
      );
    }
  }
  const { openPglite } = await import("#gateway/node/pglite.ts");
  return openPglite(folder.database);
}

/** Whoever has the folder has the database and the signing keys: a key that opens everything adds nothing to that. */
async function mintAdminKey(folder: DataFolder, store: ReturnType<typeof createStore>): Promise<string> {
  const { id, secret, secretHash } = await mintKey();
  await store.createKey({ id, name: "admin", scopes: [...SCOPES], expiresAt: null, secretHash });
  writeAdminKey(folder, secret);
  return secret;
}
