import { DurableObject } from "cloudflare:workers";
import { DsecError, errorBody } from "#core/errors.ts";
import type { KeyId } from "#core/ids.ts";
import { LIMITS } from "#core/limits.ts";
import { API_KEY, SCOPES } from "#core/wire/keys.ts";
import { decodeBase64url } from "#trace/attestation/base64url.ts";
import { createApp } from "../app.ts";
import { hashSecret } from "../auth-keys.ts";
import type { GatewayPorts, SecretCipher, Store } from "../ports.ts";
import { runtimeUpstream } from "../proxy/runtime-upstream.ts";
import { createSecretCipher } from "../proxy/secret-cipher.ts";
import { migrate } from "../store/migrate.ts";
import { postgresSql } from "../store/postgres-driver.ts";
import { createStore } from "../store/store.ts";
import type { Topic } from "../wake-port.ts";
import type { EdgeEnvironment } from "./environment.ts";
import { createR2Blobs } from "./r2-blobs.ts";
import { openSigningKeys } from "./signing-keys.ts";
import { createRoomWake, type RoomWake } from "./wake.ts";

/** A room that nobody has asked anything for so long stops sweeping, so that it can be evicted. */
const IDLE_AFTER_MS = 60_000;
const SWEEP_EVERY_MS = 1_000;

/** One gateway instance: the app over PostgreSQL, R2 and keys from a secret. Holds nothing that it could not read again. */
export class GatewayRoom extends DurableObject<EdgeEnvironment> {
  #opening: Promise<{ app: ReturnType<typeof createApp>; store: Store }> | undefined;
  readonly #wake: RoomWake;
  #askedAtMs = 0;
  #sweeping = false;

  constructor(state: DurableObjectState, environment: EdgeEnvironment) {
    super(state, environment);
    this.#wake = createRoomWake(environment, state.id, log);
  }

  override async fetch(request: Request): Promise<Response> {
    this.#askedAtMs = Date.now();
    try {
      const { app } = await this.#open();
      await this.#sweepSoon();
      return await app.fetch(request);
    } catch (error) {
      // Only opening fails here, and setting the alarm: the app answers its own failures.
      const requestId = crypto.randomUUID();
      log({
        level: "error",
        message: "the gateway does not open",
        request_id: requestId,
        error: String(error),
      });
      const status = error instanceof DsecError ? error.status : 500;
      return Response.json(errorBody(error, requestId), { status, headers: { "Retry-After": "1" } });
    }
  }

  /** Called by the other rooms after a commit of theirs. */
  wake(topics: Topic[]): void {
    this.#wake.notifyHere(topics);
  }

  /** Ends what is over, leases and channels; the database's clock decides, this only bounds how late anybody notices. */
  override async alarm(): Promise<void> {
    this.#sweeping = false;
    try {
      const { store } = await this.#open();
      await store.expireLeases();
      await store.sweepChannels();
    } catch (error) {
      log({ level: "warn", message: "sweeping leases and channels failed", error: String(error) });
    }
    if (Date.now() - this.#askedAtMs < IDLE_AFTER_MS) await this.#sweepSoon();
  }

  async #sweepSoon(): Promise<void> {
    if (this.#sweeping) return;
    this.#sweeping = true;
    try {
      await this.ctx.storage.setAlarm(Date.now() + SWEEP_EVERY_MS);
    } catch (error) {
      this.#sweeping = false; // the next request tries again
      throw error;
    }
  }

  /** Opens once; where that failed, the next request tries again. */
  #open() {
    this.#opening ??= this.#openPorts().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #openPorts() {
    const { HYPERDRIVE, BLOBS, ISSUER, SIGNING_KEYS, SECRETS_KEY, ADMIN_KEY, ASSETS } = this.env;
    const keys = await openSigningKeys(SIGNING_KEYS);
    const secretCipher =
      SECRETS_KEY === undefined
        ? undefined
        : await createSecretCipher(decodeBase64url(SECRETS_KEY) ?? new Uint8Array(0));
    const sql = postgresSql(HYPERDRIVE.connectionString, { connectionsMax: 5, pooled: true });
    const store = createStore({ sql, wake: this.#wake });
    try {
      await migrate(sql);
      if (secretCipher) await claim(store, secretCipher);
      if (ADMIN_KEY !== undefined) await admit(store, ADMIN_KEY);
    } catch (error) {
      await store.close(); // the next request opens anew
      throw error;
    }
    const ports: GatewayPorts = {
      store,
      wake: this.#wake,
      blobs: createR2Blobs(BLOBS),
      keys,
      upstream: runtimeUpstream(),
      secretCipher,
      config: { issuer: ISSUER, rateRequestsPerS: LIMITS.rateRequestsPerS, rateBurst: LIMITS.rateBurst },
      now: () => Date.now(),
      log,
    };
    const app = createApp(ports);
    if (ASSETS !== undefined) app.get("/docs/assets/:file", (c) => ASSETS.fetch(c.req.raw));
    return { app, store };
  }
}

/** A gateway with another key than the others' could not open their secrets, nor they its own. */
async function claim(store: Store, { keyDigest }: SecretCipher): Promise<void> {
  if (await store.claimSecretsKey(keyDigest)) return;
  throw new DsecError(
    "CONFIG_INVALID",
    "the secrets in the database are sealed under another key than SECRETS_KEY: give the one that its other gateways have",
  );
}

/** The first key of a new database. One that is there already keeps its scopes, its expiry and its revocation. */
async function admit(store: Store, secret: string): Promise<void> {
  const ulid = API_KEY.exec(secret)?.[1];
  if (ulid === undefined) {
    throw new DsecError(
      "CONFIG_INVALID",
      "ADMIN_KEY is no API key: dsk_, 26 characters, _ and 43 characters",
    );
  }
  const id = `key_${ulid}` as KeyId;
  if ((await store.findKey(id)) !== null) return;
  await store
    .createKey({
      id,
      name: "admin",
      scopes: [...SCOPES],
      expiresAt: null,
      secretHash: await hashSecret(secret),
    })
    .catch(async (error: unknown) => {
      // Rooms open side by side: another one may have been first.
      if ((await store.findKey(id)) === null) throw error;
    });
}

function log(event: Parameters<GatewayPorts["log"]>[0]): void {
  console.log(JSON.stringify({ at: new Date().toISOString(), ...event }));
}
