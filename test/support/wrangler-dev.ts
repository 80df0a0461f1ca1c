/** `wrangler dev` on this machine alone: the gateway in workerd behind a port, with secrets of one run. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportJWK, generateKeyPair } from "jose";
import { mintKey } from "#gateway/auth.ts";
import { freePort } from "#test/support/free-port.ts";

export type WranglerDev = {
  url: string;
  /** Has every scope. */
  adminKey: string;
  stop(): Promise<void>;
};

/** @param issuer the origin that attestations and executor tokens name; the URL itself where it is left out */
export async function startWranglerDev(options: {
  postgresUrl: string;
  issuer?: string;
}): Promise<WranglerDev> {
  const folder = mkdtempSync(join(tmpdir(), "dsec-wrangler-"));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const adminKey = (await mintKey()).secret;
  const signingKey = await exportJWK((await generateKeyPair("EdDSA", { extractable: true })).privateKey);
  const secrets = {
    ISSUER: options.issuer ?? url,
    ROOMS: "2",
    ADMIN_KEY: adminKey,
    SIGNING_KEYS: JSON.stringify({ current: signingKey }),
  };
  const envFile = join(folder, "vars");
  const lines = Object.entries(secrets).map(([name, value]) => `${name}='${value}'\n`);
  writeFileSync(envFile, lines.join(""), { mode: 0o600 });

  const flags = ["--ip", "127.0.0.1", "--port", String(port), "--inspector-port", String(await freePort())];
  const child = spawn(
    join("node_modules", ".bin", "wrangler"),
    [
      "dev",
      ...flags,
      "--env-file",
      envFile,
      "--persist-to",
      join(folder, "state"),
      "--show-interactive-dev-session=false",
    ],
    {
      // A group of its own: workerd and the bundler end with it.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        CI: "true",
        WRANGLER_SEND_METRICS: "false",
        WRANGLER_SEND_ERROR_REPORTS: "false",
        CLOUDFLARE_CF_FETCH_ENABLED: "false",
        CLOUDFLARE_HYPERDRIVE_LOCAL_CONNECTION_STRING_HYPERDRIVE: options.postgresUrl,
      },
    },
  );
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
  const stop = async () => {
    await endGroup(child);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await ready(url, child, () => said);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, adminKey, stop };
}

async function ready(url: string, child: ChildProcess, said: () => string): Promise<void> {
  const deadline = performance.now() + 90_000;
  for (;;) {
    const answer = await fetch(`${url}/readyz`).catch(() => null);
    const text = await answer?.text();
    if (answer?.ok) return;
    if (child.exitCode !== null || performance.now() > deadline) {
      throw new Error(`wrangler dev is not ready: ${text ?? "no answer"}\n${said().slice(-4000)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function endGroup(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  process.kill(-child.pid!, "SIGTERM");
  const cut = setTimeout(() => process.kill(-child.pid!, "SIGKILL"), 5_000);
  await exit;
  clearTimeout(cut);
  try {
    // What did not end with its leader.
    process.kill(-child.pid!, "SIGKILL");
  } catch {
    // nothing was left
  }
}
