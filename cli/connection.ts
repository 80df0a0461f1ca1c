import { DsecError } from "#core/errors.ts";
import { type Client, createClient } from "#sdk/client.ts";
import { gatewayOrigin } from "#sdk/transport.ts";
import { dataFolder, findServing, readAdminKey } from "./data-folder.ts";

export type ConnectionOptions = { gateway?: string | undefined; data: string };

/**
 * The gateway that a command talks to: the one that is named, with the key in DSEC_API_KEY; or the one that
 * `dsec up` serves from the data folder, with that folder's admin key.
 */
export async function connect(options: ConnectionOptions): Promise<Client> {
  const client = await findGateway(options);
  if (client) return client;
  throw new DsecError(
    "CONFIG_INVALID",
    `no gateway is named and none serves ${dataFolder(options.data).path}; ` +
      "start one with `dsec up`, or name one with --gateway or DSEC_GATEWAY",
  );
}

/**
 * The gateway of an address that need not be the user's own, as a link in a message is not: a key is shown to it only where it
 * is the gateway that is named, or that serves the data folder.
 * @throws CONFIG_INVALID where it is neither
 */
export async function connectToOrigin(origin: string, options: ConnectionOptions): Promise<Client> {
  if (options.gateway !== undefined && gatewayOrigin(options.gateway) === origin) return connect(options);
  const serving = await findServing(dataFolder(options.data));
  if (serving !== undefined && gatewayOrigin(serving.url) === origin) return connect({ data: options.data });
  throw new DsecError(
    "CONFIG_INVALID",
    `${origin} is not the gateway that your key is for, and is sent no key; if it is to have it, name it: --gateway ${origin}`,
  );
}

/** As `connect`, or undefined where no gateway is named and none serves the data folder. */
export async function findGateway(options: ConnectionOptions): Promise<Client | undefined> {
  const folder = dataFolder(options.data);
  const serving = await findServing(folder);
  const givenKey = process.env.DSEC_API_KEY || undefined;
  if (options.gateway === undefined) {
    if (serving === undefined) return undefined;
    return createClient({ gateway: serving.url, apiKey: givenKey ?? readAdminKey(folder) });
  }
  // the folder's key is for the folder's gateway and is shown to no other
  const own = serving !== undefined && gatewayOrigin(serving.url) === gatewayOrigin(options.gateway);
  const apiKey = givenKey ?? (own ? readAdminKey(folder) : undefined);
  if (apiKey === undefined) {
    throw new DsecError(
      "UNAUTHENTICATED",
      `no API key for ${gatewayOrigin(options.gateway)}; put one in DSEC_API_KEY (an admin makes it: dsec key create)`,
    );
  }
  return createClient({ gateway: options.gateway, apiKey });
}
