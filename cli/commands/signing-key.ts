import { openKeyStore } from "#gateway/node/key-store.ts";
import { existingDataFolder } from "../data-folder.ts";
import { type Command, examples, nestedIn, note, printJson } from "../program.ts";
import { printTable } from "../terminal.ts";

type Options = { data: string; json?: boolean };

/** How the places of a ring are filled: current, next, then the retired ones. */
const PLACES = ["current", "next"] as const;

export function define(command: Command): void {
  const add = nestedIn(command, "data folder");
  const listCommand = add("list", "list the public keys that this gateway publishes").action(list);
  const rotateCommand = add("rotate", "sign with the next key from now on").action(rotate);
  examples(command, [["after a yearly rotation or a leak", "dsec signing-key rotate"]]);
  examples(listCommand, [["every key as in the JWKS", "dsec signing-key list --json"]]);
  examples(rotateCommand, [["while the gateway runs", "dsec signing-key rotate --data /var/lib/dsec"]]);
  rotateCommand.addHelpText(
    "after",
    "\nThe current key retires and stays published until the last attestation that it signed has expired; the next key,\n" +
      "which verifiers know already, takes its place. A running gateway follows within two seconds. Keys in a hardware\n" +
      "module are rotated by their labels instead: see dsec gateway --help.",
  );
}

function list(options: Options): void {
  show(openKeyStore(existingDataFolder(options.data).signingKeys).jwks().keys, options);
}

function rotate(options: Options): void {
  const ring = openKeyStore(existingDataFolder(options.data).signingKeys);
  const before = ring.current().kid;
  ring.rotate();
  note(`key ${before} is retired; ${ring.current().kid} signs from now on`);
  show(ring.jwks().keys, options);
}

function show(keys: { kid: string; alg: string }[], options: Options): void {
  if (options.json) {
    printJson(keys);
    return;
  }
  const rows = keys.map(({ kid, alg }, index) => [PLACES[index] ?? "retired", alg, kid]);
  const columns = [{ title: "PLACE" }, { title: "ALG", leastWidth: 0 }, { title: "KID" }];
  printTable(columns, rows);
}
