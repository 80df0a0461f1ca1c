import { join } from "node:path";
import { createClient } from "#sdk/client.ts";
import { DEFAULT_PORT, type OpenGateway } from "../compose.ts";
import { plainLog } from "../log.ts";
import {
  type Command,
  DEFAULT_DATA,
  dataOption,
  EXIT,
  examples,
  issuerOption,
  jsonOption,
  memoryRedisOption,
  note,
  Option,
  onLostOutput,
  onStopSignal,
  printJson,
  privateNetworkOption,
  upstreamCaOption,
  wholeNumber,
} from "../program.ts";
import { duration, paintFor, shownPath } from "../terminal.ts";

type Options = {
  data: string;
  host: string;
  port?: number;
  issuer?: string;
  demo?: boolean;
  once?: boolean;
  json?: boolean;
  privateNetwork?: string[];
  upstreamCa?: string;
  memoryRedis?: string;
};

export function define(command: Command): void {
  command
    .option("--demo", "run the example tasks first, and verify their attestations offline")
    .option("--once", "end after the example tasks; exit 0 only if each ended as it must (implies --demo)")
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .addOption(
      new Option(
        "-p, --port <port>",
        `port to listen on (default: ${DEFAULT_PORT}; any free one with --once)`,
      )
        .env("DSEC_PORT")
        .argParser(wholeNumber("--port", 0, 65_535)),
    )
    .addOption(issuerOption())
    .addOption(dataOption())
    .addOption(privateNetworkOption())
    .addOption(upstreamCaOption())
    .addOption(memoryRedisOption())
    .addOption(jsonOption())
    .action(up);
  examples(command, [
    ["serve this machine", "dsec up"],
    ["show that everything works, then end", "dsec up --once"],
  ]);
}

async function up(options: Options): Promise<void> {
  const startedMs = performance.now();
  const stop = new AbortController();
  const stopListening = onStopSignal(() => {
    note(
      "\nstopping: tasks that still run are ended, and run anew at the next start; once more stops at once",
    );
    stop.abort();
  });
  note(`Starting a gateway and an executor over ${shownPath(options.data)}`);
  const port = options.port ?? (options.once ? 0 : DEFAULT_PORT);
  // a service goes on when nobody reads any more what it says
  onLostOutput(() => {});
  const { openEmbedded } = await import("../embedded.ts");
  const opened = await openEmbedded({
    ...options,
    port,
    privateNetworks: options.privateNetwork,
    log: plainLog(),
  });
  const serving = async () => {
    if (options.demo || options.once) await demo(opened, options, stop.signal);
    if (!options.once && !stop.signal.aborted) {
      invite(opened, options.data);
      await new Promise<void>((resolve) =>
        stop.signal.addEventListener("abort", () => resolve(), { once: true }),
      );
    }
  };
  try {
    note(`DSec serves ${opened.gateway.url} (ready after ${duration(performance.now() - startedMs)})\n`);
    await Promise.race([serving(), opened.done]);
  } finally {
    await opened.close();
    stopListening();
  }
}

async function demo(opened: OpenGateway, options: Options, stop: AbortSignal): Promise<void> {
  const { runDemo } = await import("../demo/demo.ts");
  const { gateway, folder, issuer, adminKey } = opened;
  const client = createClient({ gateway: gateway.url, apiKey: adminKey, fetch: gateway.fetch });
  const out = options.json ? process.stderr : process.stdout;
  const results = await runDemo({ client, folder: folder.demo, issuer, out, stop });
  if (results === undefined) {
    process.exitCode = 130;
    return;
  }
  if (options.json) printJson(results);
  const wrong = results.filter(({ asExpected }) => !asExpected);
  const paint = paintFor(out);
  if (wrong.length === 0) {
    out.write(
      `${paint("green", `All ${results.length} tasks ended as they must`)}; outputs and attestations are in ${shownPath(folder.demo)},\n` +
        "each verified offline with nothing but jwks.json beside them.\n",
    );
  } else {
    out.write(`${paint("red", `${wrong.length} of ${results.length} tasks did not end as they must`)}\n`);
    if (options.once) process.exitCode = EXIT.failed;
  }
}

function invite({ gateway, folder }: OpenGateway, data: string): void {
  const where = data === DEFAULT_DATA ? "" : ` --data ${folder.path}`;
  const paint = paintFor(process.stderr);
  const program = shownPath(join(import.meta.dirname, "../../dsec"));
  const dsec = program.startsWith("/") ? program : `./${program}`;
  const line = (what: string, how: string) => `  ${what.padEnd(22)}${paint("bold", how)}`;
  note(
    [
      "",
      `Serving ${paint("bold", gateway.url)} until Ctrl-C. In another terminal:`,
      line("run a command", `${dsec} run${where} -- python3 -c 'print(6 * 7)'`),
      line("see the tasks", `${dsec} task list${where}`),
      line("make a client's key", `${dsec} key create laptop${where}`),
      line("verify the examples", `${dsec} verify ${shownPath(folder.demo)}`),
      line("read the API", `${gateway.url}/docs`),
    ].join("\n"),
  );
}
