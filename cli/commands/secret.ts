import { LIMITS } from "#core/limits.ts";
import { type ConnectionOptions, connect } from "../connection.ts";
import { readStandardInput } from "../given-file.ts";
import { type Command, collect, examples, nestedIn, note, printJson, usageError } from "../program.ts";
import { printTable } from "../terminal.ts";

type Common = ConnectionOptions & { json?: boolean };

export function define(command: Command): void {
  const add = nestedIn(command, "gateway");
  const putCommand = add("put", "make or replace a secret; its value is read from standard input")
    .argument("<name>", "as policies name it")
    .requiredOption("--host <host>", "host it may go to, as in a policy's rules; repeatable", collect)
    .action(put);
  const listCommand = add("list", "list secrets, without their values").action(list);
  const removeCommand = add("rm", "delete a secret").argument("<name>").action(remove);
  examples(command, [
    [
      "a token for one host",
      "printf 'Bearer %s' \"$TOKEN\" | dsec secret put API_TOKEN --host api.example.com",
    ],
  ]);
  examples(putCommand, [["from a file", "dsec secret put API_TOKEN --host api.example.com < token"]]);
  examples(listCommand, [["for a program", "dsec secret list --json"]]);
  examples(removeCommand, [["no longer needed", "dsec secret rm API_TOKEN"]]);
  command.addHelpText(
    "after",
    "\nA secret is a header's whole value. The gateway puts it into the calls that a policy names it for, over HTTPS to these\n" +
      "hosts alone; no sandbox, trace, log or command ever shows it.",
  );
}

async function put(name: string, options: Common & { host: string[] }): Promise<void> {
  if (process.stdin.isTTY)
    throw usageError("the value is read from standard input: pipe it in or name a file with <");
  // A file's or echo's last line end is not part of a header's value.
  const given = await readStandardInput(LIMITS.secretChars + 2, "a header's value is no longer than that");
  const value = Buffer.from(given)
    .toString("utf8")
    .replace(/\r?\n$/, "");
  const secret = await (await connect(options)).secrets.put({ name, value, hosts: options.host });
  if (options.json) printJson(secret);
  else note(`secret ${secret.name} may go to ${secret.hosts.join(", ")}`);
}

async function list(options: Common): Promise<void> {
  const secrets = await (await connect(options)).secrets.list();
  if (options.json) {
    printJson(secrets);
    return;
  }
  const columns = [
    { title: "NAME" },
    { title: "HOSTS", leastWidth: 12 },
    { title: "UPDATED", leastWidth: 0 },
  ];
  const rows = secrets.map(({ name, hosts, updated_at }) => [name, hosts.join(","), updated_at]);
  printTable(columns, rows);
}

async function remove(name: string, options: Common): Promise<void> {
  await (await connect(options)).secrets.delete(name);
  if (options.json) printJson({ name });
  else note(`secret ${name} is deleted`);
}
