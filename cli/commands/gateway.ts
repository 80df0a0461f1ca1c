import { DsecError } from "#core/errors.ts";
import type { KeyRing, Signer } from "#gateway/ports.ts";
import { DEFAULT_PORT, openGateway } from "../compose.ts";
import { jsonLog, plainLog } from "../log.ts";
import {
  type Command,
  collect,
  databaseOption,
  dataOption,
  examples,
  issuerOption,
  note,
  Option,
  onStopSignal,
  privateNetworkOption,
  upstreamCaOption,
  usageError,
  wholeNumber,
} from "../program.ts";

type Options = {
  data: string;
  host: string;
  port: number;
  issuer?: string;
  database?: string;
  shared?: string;
  privateNetwork?: string[];
  upstreamCa?: string;
  logJson?: boolean;
  hsmLibrary?: string;
  hsmToken?: string;
  hsmKey?: string;
  hsmNextKey?: string;
  hsmRetiredKey?: string[];
  hsmAlg: Signer["alg"];
  hsmCreate?: boolean;
};

export function define(command: Command): void {
  command
    .addOption(
      databaseOption("PostgreSQL, such as postgres://user@host/dsec (default: embedded, in the data folder)"),
    )
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .addOption(
      new Option("-p, --port <port>", "port to listen on")
        .env("DSEC_PORT")
        .default(DEFAULT_PORT)
        .argParser(wholeNumber("--port", 0, 65_535)),
    )
    .addOption(issuerOption())
    .addOption(dataOption())
    .addOption(
      new Option(
        "--shared <folder>",
        "blobs and keys, where several gateways serve one database (default: the data folder)",
      ).env("DSEC_SHARED"),
    )
    .addOption(privateNetworkOption())
    .addOption(upstreamCaOption())
    .option("--log-json", "log JSON lines, also what is routine")
    .option("--hsm-library <so>", "sign with a hardware module: its PKCS#11 library (PIN in DSEC_HSM_PIN)")
    .option("--hsm-token <label>", "label of the token")
    .option("--hsm-key <label>", "label of the signing key")
    .option("--hsm-next-key <label>", "label of the key that will follow, published ahead")
    .option(
      "--hsm-retired-key <label>",
      "label of a key that signed before and stays published; repeatable",
      collect,
    )
    .addOption(
      new Option("--hsm-alg <alg>", "algorithm of the keys").choices(["EdDSA", "ES256"]).default("ES256"),
    )
    .option("--hsm-create", "make keys that the token does not have yet")
    .action(serve);
  examples(command, [
    [
      "on a database, for executors elsewhere",
      "dsec gateway --database postgres://dsec@db/dsec --host 0.0.0.0 --issuer https://dsec.example",
    ],
    [
      "another on the same database, on another machine",
      "dsec gateway --database postgres://dsec@db/dsec --shared /mnt/dsec --host 0.0.0.0 --issuer https://dsec.example",
    ],
    [
      "keys in a hardware module",
      "DSEC_HSM_PIN=… dsec gateway --hsm-library /usr/lib/softhsm/libsofthsm2.so --hsm-token dsec --hsm-key attest-1",
    ],
  ]);
  command.addHelpText(
    "after",
    "\nThe data folder holds blobs, signing keys and admin.key, the first key, made at the first start.\n" +
      "Gateways that serve one database see the same --shared folder, such as a network file system, as one user.\n" +
      "TLS ends before the gateway: put a proxy in front of every address that is not loopback.",
  );
}

async function serve(options: Options): Promise<void> {
  if (options.shared !== undefined && options.database === undefined)
    throw usageError("--shared is for gateways on one --database; an embedded one has one gateway");
  const stop = new AbortController();
  const stopListening = onStopSignal((signal) => {
    note(`${signal}: stopping`);
    stop.abort();
  });
  const hsm = hardwareKeys(options);
  const opened = await openGateway({
    data: options.data,
    host: options.host,
    port: options.port,
    issuer: options.issuer,
    database: options.database,
    shared: options.shared,
    privateNetworks: options.privateNetwork,
    upstreamCa: options.upstreamCa,
    keys: hsm?.open,
    log: options.logJson ? jsonLog() : plainLog(),
  });
  try {
    note(
      `gateway ${opened.gateway.url}, issuer ${opened.issuer}, admin key in ${opened.folder.path}/admin.key`,
    );
    await new Promise<void>((resolve) => {
      if (stop.signal.aborted) resolve();
      stop.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  } finally {
    await opened.close();
    hsm?.close();
    stopListening();
  }
}

function hardwareKeys(options: Options): { open: () => Promise<KeyRing>; close(): void } | undefined {
  const { hsmLibrary: library, hsmToken: token, hsmKey: label, hsmNextKey: nextLabel, hsmAlg: alg } = options;
  if (library === undefined) {
    if (token !== undefined || label !== undefined)
      throw usageError("--hsm-token and --hsm-key need --hsm-library");
    return undefined;
  }
  const pin = process.env.DSEC_HSM_PIN;
  if (token === undefined || label === undefined || !pin) {
    throw new DsecError(
      "CONFIG_INVALID",
      "--hsm-library needs --hsm-token, --hsm-key, and the PIN in DSEC_HSM_PIN",
    );
  }
  let closeToken: (() => void) | undefined;
  return {
    async open() {
      const { openPkcs11Token } = await import("#gateway/node/pkcs11-signer.ts");
      const { createKeyRing } = await import("#gateway/signing/key-ring.ts");
      const opened = await openPkcs11Token({ library, token, pin });
      closeToken = () => opened.close();
      const key = (name: string) => opened.signer({ label: name, alg, create: options.hsmCreate === true });
      const retired = await Promise.all(
        (options.hsmRetiredKey ?? []).map((name) => opened.signer({ label: name, alg })),
      );
      return createKeyRing({
        current: await key(label),
        next: nextLabel === undefined ? null : await key(nextLabel),
        // Its last token's expiry is not known here: whoever runs the gateway names the key until then.
        retired: retired.map((signer) => ({ ...signer, publishedUntilMs: Number.POSITIVE_INFINITY })),
      });
    },
    close: () => closeToken?.(),
  };
}
