import { type Key, SCOPES, type Scope } from "#core/wire/keys.ts";
import { type ConnectionOptions, connect } from "../connection.ts";
import { type Command, collect, examples, nestedIn, note, printJson, usageError } from "../program.ts";
import { type Column, paintFor, plainLine, printTable } from "../terminal.ts";

type Common = ConnectionOptions & { json?: boolean };

export function define(command: Command): void {
  const add = nestedIn(command, "gateway");
  const createCommand = add("create", "make a key and print its secret, which is shown only now")
    .argument("<name>", "what the key is for")
    .option("-s, --scope <scope>", `${SCOPES.join(", ")} (default: tasks); repeatable`, collect)
    .option("--expires <time>", "RFC 3339 time at which it ends, such as 2027-01-31T00:00:00Z")
    .action(create);
  const listCommand = add("list", "list keys").action(list);
  const revokeCommand = add("revoke", "end a key at once").argument("<key-id>").action(revoke);
  examples(command, [
    ["a key for a client, kept in a variable", "export DSEC_API_KEY=$(dsec key create laptop)"],
  ]);
  examples(createCommand, [
    ["a key for a client", "dsec key create laptop"],
    ["a token by which executors enrol", "dsec key create rack-7 --scope executors:enrol"],
  ]);
  examples(listCommand, [["every key, for a program", "dsec key list --json"]]);
  examples(revokeCommand, [["a key that leaked", "dsec key revoke key_01k…"]]);
}

async function create(name: string, options: Common & { scope?: string[]; expires?: string }): Promise<void> {
  const scopes = (options.scope ?? ["tasks"]).map((scope) => {
    if ((SCOPES as readonly string[]).includes(scope)) return scope as Scope;
    throw usageError(`--scope ${scope} is unknown; there are ${SCOPES.join(", ")}`);
  });
  const expiresAt = options.expires === undefined ? null : utcTime(options.expires);
  const key = await (await connect(options)).keys.create({ name, scopes, expires_at: expiresAt });
  if (options.json) return printJson(key);
  note(`${key.id} (${key.scopes.join(", ")}); its secret is shown only now:`);
  process.stdout.write(`${key.secret}\n`);
}

async function list(options: Common): Promise<void> {
  const keys: Key[] = [];
  for await (const key of (await connect(options)).keys.all()) keys.push(key);
  if (options.json) return printJson(keys);
  const rows = keys.map((key) => [
    key.id,
    plainLine(key.name),
    key.scopes.join(","),
    status(key),
    key.last_used_at ?? "never",
  ]);
  const columns: Column[] = [
    { title: "KEY" },
    { title: "NAME", leastWidth: 8 },
    { title: "SCOPES", leastWidth: 8 },
    { title: "STATUS" },
    { title: "LAST USED", leastWidth: 0 },
  ];
  const paint = paintFor(process.stdout);
  const cell = (text: string, row: number) => (row < 0 || keys[row]!.revoked_at ? paint("dim", text) : text);
  printTable(columns, rows, cell);
}

async function revoke(id: string, options: Common): Promise<void> {
  const key = await (await connect(options)).keys.revoke(id);
  if (options.json) printJson(key);
  else process.stdout.write(`${key.id} is revoked since ${key.revoked_at}\n`);
}

function status(key: Key): string {
  if (key.revoked_at) return "revoked";
  return key.expires_at ? `until ${key.expires_at}` : "in force";
}

function utcTime(text: string): string {
  const time = new Date(text);
  if (Number.isNaN(time.getTime()))
    throw usageError(`--expires ${text} is no time; write 2027-01-31T00:00:00Z`);
  return time.toISOString();
}
