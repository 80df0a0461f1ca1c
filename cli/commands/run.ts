import { type Client, createClient } from "#sdk/client.ts";
import { type ConnectionOptions, findGateway } from "../connection.ts";
import { plainLog } from "../log.ts";
import {
  type Command,
  dataOption,
  EXIT,
  examples,
  gatewayOption,
  jsonOption,
  note,
  printJson,
  usageError,
} from "../program.ts";
import { makeResultFolder, saveResult } from "../result-folder.ts";
import { exitCode, explainEnd, followTask, withStreams } from "../task-follow.ts";
import { addTaskOptions, type TaskOptions, taskRequest } from "../task-options.ts";
import { shownPath } from "../terminal.ts";

type Options = ConnectionOptions &
  TaskOptions & { raw?: boolean; quiet?: boolean; save?: string; json?: boolean };

export function define(command: Command): void {
  addTaskOptions(command)
    .argument("[command...]", "the command and its arguments, after --")
    .option(
      "--save <dir>",
      "write outputs, attestation.jwt and jwks.json to this new or empty folder, as dsec verify reads it",
    )
    .option("-q, --quiet", "say nothing beside what the command says")
    .option("--raw", "leave control codes in, also on a terminal")
    .addOption(gatewayOption())
    .addOption(dataOption())
    .addOption(jsonOption())
    .action(run);
  examples(command, [
    ["a command", "dsec run -- python3 -c 'print(6 * 7)'"],
    [
      "with inputs, an output and limits",
      "dsec run --input agent.py --input data.csv --output '*.json' --memory 1g --timeout 5m --save result -- python3 /inputs/agent.py",
    ],
    ["what the result proves", "dsec verify result"],
    ["on a cluster", "DSEC_API_KEY=dsk_… dsec run --gateway https://dsec.example -- nproc"],
  ]);
  command.addHelpText(
    "after",
    `\nThe gateway is the one that is named, or the one that serves the data folder; where there is neither, this command
starts both a gateway and an executor for its own time. It ends with the exit code of the command: 124 when its time
was over, 137 out of memory, 126 not executable, 127 not found, 130 cancelled (Ctrl-C), 125 when dsec itself failed.`,
  );
}

async function run(words: string[], options: Options): Promise<void> {
  if (words.length === 0) throw usageError("no command; write it after --, as in: dsec run -- echo hello");
  if (options.save !== undefined) makeResultFolder("--save", options.save);
  const found = await findGateway(options);
  if (found) {
    await runTask(found, words, options);
    return;
  }
  const { openEmbedded } = await import("../embedded.ts");
  if (process.stderr.isTTY && !options.quiet)
    note(`dsec: starting a gateway and an executor over ${shownPath(options.data)} for this command alone`);
  const embedded = await openEmbedded({ data: options.data, host: "127.0.0.1", port: 0, log: plainLog() });
  try {
    const { gateway, adminKey } = embedded;
    const client = createClient({ gateway: gateway.url, apiKey: adminKey, fetch: gateway.fetch });
    await runTask(client, words, options, embedded.done);
  } finally {
    await embedded.close();
  }
}

/** @param served as of `followTask` */
async function runTask(
  client: Client,
  words: string[],
  options: Options,
  served?: Promise<void>,
): Promise<void> {
  const request = await taskRequest(client, words, options);
  const { task, isRead } = await followTask(client, request, { ...options, served });
  if (options.save !== undefined) {
    const isNeverRun = task.state === "cancelled" && task.attestation_id === null;
    if (isNeverRun) note(`dsec: ${task.id} was cancelled before it ran and left no result to save`);
    else await saveResult(client, task, options.save);
  }
  if (options.json) printJson(await withStreams(client, task));
  else if (!options.quiet) explainEnd(task);
  process.exitCode = isRead ? exitCode(task) : EXIT.readerGone;
}
