import { join } from "node:path";
import { type Check, examine } from "../doctor/check.ts";
import {
  checkCgroups,
  checkFolder,
  checkKernel,
  checkLimits,
  checkParts,
  checkPrivilege,
} from "../doctor/host.ts";
import {
  type Command,
  databaseOption,
  dataOption,
  EXIT,
  examples,
  jsonOption,
  Option,
  printJson,
} from "../program.ts";
import { paintFor, plainLine, type Style } from "../terminal.ts";

type Options = {
  data: string;
  gateway?: string;
  database?: string;
  hsmLibrary?: string;
  hsmToken?: string;
  json?: boolean;
};

export function define(command: Command): void {
  command
    .addOption(dataOption())
    .addOption(
      new Option("-g, --gateway <url>", "also check that this gateway answers, and its clock").env(
        "DSEC_GATEWAY",
      ),
    )
    .addOption(databaseOption("also check this PostgreSQL, and its clock"))
    .option("--hsm-library <so>", "also check this PKCS#11 library")
    .option("--hsm-token <label>", "and that this token takes the PIN in DSEC_HSM_PIN")
    .addOption(jsonOption())
    .action(examineHost);
  examples(command, [
    ["can this host run sandboxes?", "dsec doctor"],
    ["and reach what it needs?", "dsec doctor --gateway https://dsec.example --json"],
  ]);
  command.addHelpText("after", "\nThe exit code is 1 if anything fails; warnings leave it 0.");
}

async function examineHost(options: Options): Promise<void> {
  const root = join(import.meta.dirname, "../..");
  const checks: Check[] = [
    ...(await examine("root", checkPrivilege)),
    ...(await examine("kernel", checkKernel)),
    ...(await examine("cgroups", checkCgroups)),
    ...(await examine("limits", checkLimits)),
    ...(await examine("data folder", () => checkFolder("data folder", options.data))),
    ...(await examine("parts", () => checkParts(root))),
    ...(await examine("sandbox", async () =>
      (await import("../doctor/sandbox.ts")).checkSandbox(options.data),
    )),
  ];
  const { gateway, database, hsmLibrary } = options;
  const services = await import("../doctor/services.ts");
  if (gateway !== undefined) checks.push(...(await examine("gateway", () => services.checkGateway(gateway))));
  if (database !== undefined)
    checks.push(...(await examine("postgres", () => services.checkDatabase(database))));
  if (hsmLibrary !== undefined) {
    checks.push(...(await examine("hsm", () => services.checkHardwareModule(hsmLibrary, options.hsmToken))));
  }

  if (options.json) printJson(checks);
  else process.stdout.write(report(checks));
  process.exitCode = checks.some(({ status }) => status === "fail") ? EXIT.failed : EXIT.done;
}

function report(checks: Check[]): string {
  const paint = paintFor(process.stdout);
  const width = Math.max(...checks.map(({ name }) => name.length));
  const mark: Record<Check["status"], [Style, string]> = {
    ok: ["green", "✓"],
    warn: ["yellow", "!"],
    fail: ["red", "✗"],
  };
  const lines = checks.flatMap(({ name, status, found, mend }) => {
    const line = `${paint(...mark[status])} ${name.padEnd(width)}  ${plainLine(found)}`;
    return mend === undefined
      ? [line]
      : [line, `${" ".repeat(width + 4)}${paint("cyan", `→ ${plainLine(mend)}`)}`];
  });
  const count = (status: Check["status"]) => checks.filter((check) => check.status === status).length;
  return `${lines.join("\n")}\n\n${count("ok")} ok, ${count("warn")} to improve, ${count("fail")} to mend\n`;
}
