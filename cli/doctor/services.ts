/** What lies outside the host's kernel: the gateway, the database, the clocks between them, the hardware module. */
import { existsSync } from "node:fs";
import postgres from "postgres";
import { gatewayOrigin } from "#sdk/transport.ts";
import { type Check, fail, ok, warn } from "./check.ts";

const REACH_MS = 5_000;
/** Executors correct their tokens by the gateway's clock; a larger difference still makes logs hard to read. */
const CLOCK_WARN_MS = 2_000;

export async function checkGateway(url: string): Promise<Check[]> {
  const origin = gatewayOrigin(url);
  const startedMs = Date.now();
  let response: Response;
  try {
    response = await fetch(`${origin}/readyz`, { signal: AbortSignal.timeout(REACH_MS), redirect: "manual" });
  } catch (error) {
    const cause =
      error instanceof Error && error.cause instanceof Error ? error.cause.message : (error as Error).message;
    return [fail("gateway", `${origin}: ${cause}`, "start it, or mend the address and the network between")];
  }
  const body = (await response.text()).slice(0, 200);
  const checks = [
    response.ok
      ? ok("gateway", `${origin} is ready`)
      : fail(
          "gateway",
          `${origin} answers ${response.status}: ${body}`,
          "look at its log; its database may be away",
        ),
  ];
  const theirs = Date.parse(response.headers.get("date") ?? "");
  if (!Number.isNaN(theirs))
    checks.push(clock("clock and gateway", theirs - (startedMs + Date.now()) / 2, 1_000));
  return checks;
}

export async function checkDatabase(url: string): Promise<Check[]> {
  const sql = postgres(url, { max: 1, connect_timeout: REACH_MS / 1000, onnotice: () => {} });
  try {
    const startedMs = Date.now();
    const [row] = await sql<{ version: string; now_ms: string; connections: string; read_only: string }[]>`
      select current_setting('server_version') as version,
             (extract(epoch from clock_timestamp()) * 1000)::text as now_ms,
             current_setting('max_connections') as connections,
             current_setting('transaction_read_only') as read_only`;
    if (!row)
      return [fail("postgres", "it answers without rows", "check that the URL names a PostgreSQL server")];
    const middleMs = (startedMs + Date.now()) / 2;
    const major = Number.parseInt(row.version, 10);
    const found = `PostgreSQL ${row.version}, ${row.connections} connections`;
    const checks = [
      major < 15
        ? fail("postgres", found, "PostgreSQL 15 or later is needed")
        : row.read_only === "on"
          ? fail("postgres", `${found}, read-only`, "name the primary: gateways write")
          : ok("postgres", found),
    ];
    checks.push(clock("clock and database", Number(row.now_ms) - middleMs, 0));
    return checks;
  } catch (error) {
    return [
      fail("postgres", (error as Error).message, "start it, or mend the URL (postgres://user@host/database)"),
    ];
  } finally {
    await sql.end({ timeout: 1 });
  }
}

export async function checkHardwareModule(library: string, token: string | undefined): Promise<Check[]> {
  if (!existsSync(library))
    return [fail("hsm", `${library} is missing`, "install the vendor's PKCS#11 library, or mend the path")];
  const pin = process.env.DSEC_HSM_PIN;
  if (token === undefined || !pin) {
    return [
      warn(
        "hsm",
        `${library} is there`,
        "give --hsm-token and the PIN in DSEC_HSM_PIN to check the token as well",
      ),
    ];
  }
  const { openPkcs11Token } = await import("#gateway/node/pkcs11-signer.ts");
  try {
    const opened = await openPkcs11Token({ library, token, pin });
    opened.close();
    return [ok("hsm", `${library}: token ${token} takes the PIN`)];
  } catch (error) {
    return [fail("hsm", (error as Error).message, "see the message")];
  }
}

function clock(name: string, differenceMs: number, resolutionMs: number): Check {
  const rounded = Math.round(differenceMs);
  const found = `this host is ${Math.abs(rounded)} ms ${rounded > 0 ? "behind" : "ahead"}${resolutionMs > 0 ? ` (±${resolutionMs})` : ""}`;
  if (Math.abs(differenceMs) <= CLOCK_WARN_MS + resolutionMs) return ok(name, found);
  return warn(name, found, "run a time service (systemd-timesyncd, chrony)");
}
