import { createHash } from "node:crypto";
import type { Handle, PKCS11, Template } from "pkcs11js";
import { DsecError } from "#core/errors.ts";
import type { Signer } from "../ports.ts";

type Pkcs11 = typeof import("pkcs11js");
type Module = { api: Pkcs11; cryptoki: PKCS11 };

/** Cryptoki 3.0's name that pkcs11js does not have yet. */
const CKM_EDDSA = 0x1057;

/** A library is initialised once in a process, however many tokens of it are open. */
const libraries = new Map<string, Module & { users: number }>();

export async function loadLibrary(path: string): Promise<{ module: Module; release(): void }> {
  let library = libraries.get(path);
  if (!library) {
    const api = await loadDriver();
    library = libraries.get(path) ?? { api, cryptoki: initialise(api, path), users: 0 };
    libraries.set(path, library);
  }
  const module = library;
  module.users++;
  return {
    module,
    release() {
      if (--module.users > 0) return;
      libraries.delete(path);
      module.cryptoki.C_Finalize();
      module.cryptoki.close();
    },
  };
}

async function loadDriver(): Promise<Pkcs11> {
  try {
    const driver = (await import("pkcs11js")) as Pkcs11 & { default?: Pkcs11 };
    return driver.default ?? driver;
  } catch (cause) {
    throw unavailable(
      "the optional package pkcs11js is not built; run npm rebuild pkcs11js with a C++ compiler",
      cause,
    );
  }
}

function initialise(api: Pkcs11, path: string): PKCS11 {
  const cryptoki = new api.PKCS11();
  try {
    cryptoki.load(path);
    // signatures run on several threads at once
    cryptoki.C_Initialize({ flags: api.CKF_OS_LOCKING_OK });
  } catch (cause) {
    throw unavailable(
      `library ${path} does not load: ${reason(cause)}; name the vendor's PKCS#11 library`,
      cause,
    );
  }
  return cryptoki;
}

/** Sessions of one token, logged in, each lent to one caller at a time. */
export class SessionPool {
  readonly #module: Module;
  readonly #config: { library: string; token: string; pin: string };
  readonly #most: number;
  #idle: Session[] = [];
  #lent = 0;
  #waiting: (() => void)[] = [];
  #open = true;

  constructor(module: Module, config: { library: string; token: string; pin: string; sessions?: number }) {
    this.#module = module;
    this.#config = config;
    this.#most = config.sessions ?? 4;
    this.#idle.push(this.#connect());
  }

  async use<T>(act: (session: Session) => Promise<T>): Promise<T> {
    while (this.#lent >= this.#most) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#lent++;
    try {
      return await this.#useOne(act);
    } finally {
      this.#lent--;
      this.#waiting.shift()?.();
    }
  }

  async #useOne<T>(act: (session: Session) => Promise<T>): Promise<T> {
    const before = this.#idle.pop();
    if (before) {
      try {
        return this.#keep(before, await act(before));
      } catch (error) {
        if (error instanceof DsecError) throw this.#keep(before, error);
        // the module may have been restarted since: its sessions are gone, not its keys
        before.close();
      }
    }
    const session = this.#connect();
    try {
      return this.#keep(session, await act(session));
    } catch (error) {
      if (error instanceof DsecError) throw this.#keep(session, error);
      session.close();
      throw unavailable(`token "${this.#config.token}": ${reason(error)}; see that the module is up`, error);
    }
  }

  #keep<T>(session: Session, answer: T): T {
    if (this.#open) this.#idle.push(session);
    else session.close();
    return answer;
  }

  #connect(): Session {
    const { token, library, pin } = this.#config;
    if (!this.#open) throw unavailable(`token "${token}" was closed by this process; open it again`);
    const { api, cryptoki } = this.#module;
    try {
      const slots = cryptoki
        .C_GetSlotList(true)
        .filter((slot) => cryptoki.C_GetTokenInfo(slot).label.trim() === token);
      if (slots.length !== 1) {
        throw unavailable(
          `${library} has ${slots.length} tokens labelled "${token}", must be one; see pkcs11-tool -L`,
        );
      }
      const handle = cryptoki.C_OpenSession(slots[0]!, api.CKF_SERIAL_SESSION | api.CKF_RW_SESSION);
      try {
        cryptoki.C_Login(handle, api.CKU_USER, pin);
      } catch (error) {
        // logging in counts for all sessions of the process
        if ((error as { code?: number }).code !== api.CKR_USER_ALREADY_LOGGED_IN) {
          cryptoki.C_CloseSession(handle);
          throw loginRefused(api, token, error);
        }
      }
      return new Session(this.#module, handle);
    } catch (error) {
      if (error instanceof DsecError) throw error;
      throw unavailable(`token "${token}" of ${library}: ${reason(error)}; see that the module is up`, error);
    }
  }

  close(): void {
    this.#open = false;
    for (const session of this.#idle) session.close();
    this.#idle = [];
  }
}

/** One login's session, and the handles of the private keys it has looked up. */
export class Session {
  readonly api: Pkcs11;
  readonly cryptoki: PKCS11;
  readonly handle: Handle;
  readonly #privateKeys = new Map<string, Handle>();

  constructor({ api, cryptoki }: Module, handle: Handle) {
    this.api = api;
    this.cryptoki = cryptoki;
    this.handle = handle;
  }

  async sign(label: string, alg: Signer["alg"], bytes: Uint8Array): Promise<Uint8Array> {
    let key = this.#privateKeys.get(label);
    if (!key) {
      key = this.findOne(label, this.api.CKO_PRIVATE_KEY, alg);
      this.#privateKeys.set(label, key);
    }
    // CKM_ECDSA signs a hash that it is given and CKM_EDDSA the message itself; both answer with R||S
    const mechanism = alg === "EdDSA" ? CKM_EDDSA : this.api.CKM_ECDSA;
    const message = alg === "EdDSA" ? Buffer.from(bytes) : createHash("sha256").update(bytes).digest();
    this.cryptoki.C_SignInit(this.handle, { mechanism }, key);
    return this.cryptoki.C_SignAsync(this.handle, message, Buffer.alloc(64));
  }

  find(label: string, objectClass: number): Handle[] {
    const template: Template = [
      { type: this.api.CKA_CLASS, value: objectClass },
      { type: this.api.CKA_LABEL, value: label },
    ];
    this.cryptoki.C_FindObjectsInit(this.handle, template);
    try {
      return this.cryptoki.C_FindObjects(this.handle, 3);
    } finally {
      this.cryptoki.C_FindObjectsFinal(this.handle);
    }
  }

  findOne(label: string, objectClass: number, alg: Signer["alg"]): Handle {
    const found = this.find(label, objectClass);
    const [handle] = found;
    if (handle && found.length === 1) return handle;
    const part = objectClass === this.api.CKO_PRIVATE_KEY ? "private" : "public";
    const remedy =
      found.length === 0 ? `make one with create, alg ${alg}` : "give each key pair a label of its own";
    throw unusable(
      label,
      `the token has ${found.length === 0 ? "no" : "more than one"} ${part} key of this label; ${remedy}`,
    );
  }

  /** The attribute's bytes. */
  read(object: Handle, type: number): Buffer {
    return this.cryptoki.C_GetAttributeValue(this.handle, object, [{ type }])[0]!.value as Buffer;
  }

  close(): void {
    try {
      this.cryptoki.C_CloseSession(this.handle);
    } catch {
      // a session that is gone is closed
    }
  }
}

function loginRefused(api: Pkcs11, token: string, error: unknown): DsecError {
  switch ((error as { code?: number }).code) {
    case api.CKR_PIN_INCORRECT:
    case api.CKR_PIN_INVALID:
    case api.CKR_PIN_LEN_RANGE:
      return unavailable(
        `token "${token}" refused the PIN; check it before trying again, the token locks after a few`,
      );
    case api.CKR_PIN_LOCKED:
      return unavailable(`token "${token}" has locked its PIN; its security officer must set a new one`);
    default:
      return unavailable(
        `token "${token}" refused the login: ${reason(error)}; see that the module is up`,
        error,
      );
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function unavailable(why: string, cause?: unknown): DsecError {
  return new DsecError("SIGNER_UNAVAILABLE", `PKCS#11: ${why}`, { cause });
}

export function unusable(label: string, why: string): DsecError {
  return new DsecError("CONFIG_INVALID", `PKCS#11 key "${label}": ${why}`);
}
