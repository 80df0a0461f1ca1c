import { DsecError } from "#core/errors.ts";
import { WIRE_NAME } from "#core/resources.ts";
import { type Executor, type ExecutorOptions, startExecutor } from "#executor/main.ts";
import { makeDataFolder } from "../data-folder.ts";
import { jsonLog, plainLog } from "../log.ts";
import { requireRoot } from "../privilege.ts";
import {
  type Command,
  dataOption,
  examples,
  memoryRedisOption,
  note,
  Option,
  onStopSignal,
  usageError,
} from "../program.ts";

type Options = {
  gateway?: string;
  token?: string;
  data: string;
  offer?: [string, number][];
  memoryRedis?: string;
  logJson?: boolean;
};

const AXES: readonly string[] = Object.values(WIRE_NAME);

export function define(command: Command): void {
  command
    .addOption(new Option("-g, --gateway <url>", "gateway to pull from").env("DSEC_GATEWAY"))
    .addOption(
      new Option("--token <key>", "API key with scope executors:enrol; needed at the first start").env(
        "DSEC_TOKEN",
      ),
    )
    .addOption(dataOption())
    .option(
      "--offer <axis=amount>",
      `what to offer in place of what is measured (${AXES.join(", ")}); repeatable`,
      offered,
    )
    .addOption(memoryRedisOption())
    .option("--log-json", "log JSON lines, also what is routine")
    .action(execute);
  examples(command, [
    ["make a token on the gateway's side", "dsec key create rack-7 --scope executors:enrol"],
    ["join", "DSEC_TOKEN=dsk_… dsec executor --gateway https://dsec.example"],
  ]);
  command.addHelpText(
    "after",
    "\nNeeds root: it makes namespaces, mounts and cgroups (see dsec doctor). The first SIGTERM or Ctrl-C drains: what\n" +
      "runs may finish; the second ends it and gives its tasks back unburned; the third waits for nothing. A token or\n" +
      "password on the command line can be seen by every user of the host; the environment cannot.",
  );
}

async function execute(options: Options): Promise<void> {
  if (options.gateway === undefined || options.token === undefined) {
    throw new DsecError(
      "CONFIG_INVALID",
      "name the gateway (--gateway or DSEC_GATEWAY) and give a token (DSEC_TOKEN)",
    );
  }
  requireRoot();
  const folder = makeDataFolder(options.data);
  const executor = await startedExecutor({
    gatewayUrl: options.gateway,
    token: options.token,
    dataDirectory: folder.executor,
    capacity: Object.fromEntries(options.offer ?? []),
    redisUrl: options.memoryRedis,
    log: options.logJson ? jsonLog() : plainLog(),
  });
  // How it ended, `done` says.
  const ending = (end: Promise<void>) => void end.catch(() => {});
  const stopListening = onStopSignal(
    (signal) => {
      note(`${signal}: draining; once more ends at once and gives the leases back`);
      ending(executor.drain());
    },
    (signal) => {
      note(`${signal}: giving the leases back; once more waits for nothing`);
      ending(executor.close());
    },
  );
  try {
    note(`executor ${executor.executorId} pulls from ${options.gateway}`);
    await executor.done;
  } finally {
    stopListening();
  }
}

/** Rejects where a signal comes first: then the start is given up, and what has started by then is closed. */
async function startedExecutor(options: Omit<ExecutorOptions, "signal">): Promise<Executor> {
  const givingUp = new AbortController();
  const stopListening = onStopSignal((signal) => {
    note(`${signal}: giving up the start`);
    givingUp.abort();
  });
  try {
    const executor = await startExecutor({ ...options, signal: givingUp.signal });
    if (!givingUp.signal.aborted) return executor;
    await executor.close();
    throw givingUp.signal.reason;
  } finally {
    stopListening();
  }
}

function offered(text: string, previous: [string, number][] = []): [string, number][] {
  const [axis = "", amount = ""] = text.split("=");
  if (!AXES.includes(axis) || !/^\d+(\.\d{1,3})?$/.test(amount)) {
    throw usageError(
      `--offer must be AXIS=AMOUNT with an axis of ${AXES.join(", ")}, not ${JSON.stringify(text)}`,
    );
  }
  return [...previous, [axis, Number(amount)]];
}
