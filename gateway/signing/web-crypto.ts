import { sha256 } from "#core/json.ts";
import { importJwk } from "#trace/attestation/keys.ts";
import type { CryptoEngine } from "../ports.ts";

/** What every runtime has. */
export const webCrypto: CryptoEngine = { importKey: importJwk, sha256 };
