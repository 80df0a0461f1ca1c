/**
 * A real PostgreSQL for tests: Debian's server, run as the user `postgres` in a folder of its own, on 127.0.0.1.
 * A small shell owns it and stops it, and removes the folder, as soon as its standard input ends: that happens
 * however this process ends, so that nothing is left behind after a failure, Ctrl-C or SIGKILL either.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres from "postgres";
import { migrate } from "#gateway/store/migrate.ts";
import { postgresSql } from "#gateway/store/postgres-driver.ts";
import { freePort } from "#test/support/free-port.ts";

export type PostgresServer = {
  /** The URL of a fresh, empty database. */
  emptyDatabase(): Promise<string>;
  /** The URL of a fresh database with all migrations applied. */
  database(): Promise<string>;
  /** Vacuums and analyzes every database made here, as autovacuum does in time. */
  settle(): Promise<void>;
  /** Stops the server and leaves its data, as for a restart. */
  halt(): Promise<void>;
  resume(): Promise<void>;
  /** Stops the server and removes its folder. */
  stop(): Promise<void>;
};

/**
 * @param durable keep the durability of a production server (benchmarks); tests go without fsync
 */
export async function startPostgres(
  options: { durable?: boolean; settings?: Record<string, string> } = {},
): Promise<PostgresServer> {
  const durability = options.durable ? {} : HASTE;
  const { folder, owner, admin, url, stop } = await own({ ...durability, ...options.settings });

  let template: Promise<void> | undefined;
  let count = 0;
  async function create(from?: string): Promise<string> {
    const name = `dsec_${++count}`;
    await admin.unsafe(`create database ${name}${from ? ` template ${from}` : ""}`);
    return url(name);
  }
  async function makeTemplate(): Promise<void> {
    await admin.unsafe("create database dsec_template");
    const sql = postgresSql(url("dsec_template"), { connectionsMax: 1 });
    await migrate(sql);
    await sql.close();
  }

  return {
    emptyDatabase: () => create(),
    async database() {
      template ??= makeTemplate();
      await template;
      return create("dsec_template");
    },
    async settle() {
      for (let i = 1; i <= count; i++) {
        const database = postgres(url(`dsec_${i}`), { max: 1, onnotice: () => {}, fetch_types: false });
        await database.unsafe("vacuum analyze");
        await database.end();
      }
    },
    async halt() {
      owner.stdin!.write("halt\n");
      await said(owner, "halted", folder);
    },
    async resume() {
      owner.stdin!.write("resume\n");
      await said(owner, "started", folder);
      await reachable(admin, folder);
    },
    stop,
  };
}

export type Standby = {
  /** The URL of the primary's database here. */
  url: string;
  /** Makes it a primary of its own. */
  promote(): Promise<void>;
  stop(): Promise<void>;
};

/** A hot standby of a server that `startPostgres` started. @param primaryUrl of one of its databases */
export async function startStandby(primaryUrl: string): Promise<Standby> {
  const { admin, url, stop } = await own(HASTE, new URL(primaryUrl));
  return {
    url: url(new URL(primaryUrl).pathname.slice(1)),
    async promote() {
      await admin`select pg_promote()`;
    },
    stop,
  };
}

const HASTE = { fsync: "off", synchronous_commit: "off", full_page_writes: "off" };

/** A running server and the shell that owns it. @param primary what it is a standby of, whose passwords are its own too */
async function own(special: Record<string, string>, primary?: URL) {
  const bin = binaries();
  const folder = mkdtempSync(join(tmpdir(), "dsec-postgres-"));
  const port = await freePort();
  const password = primary?.password ?? randomBytes(16).toString("hex");
  writeFileSync(join(folder, "password"), password);
  chmodSync(folder, 0o755);
  const settings = {
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: folder,
    max_connections: "100",
    ...special,
  };
  const flags = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  const owner = spawn(
    "sh",
    ["-c", OWNER, "dsec-postgres", bin, folder, flags.join(" "), primary?.href ?? ""],
    {
      // A process group of its own: Ctrl-C reaches us, and the owner hears of it when its input ends.
      detached: true,
      stdio: ["pipe", "pipe", "inherit"],
    },
  );
  await said(owner, "started", folder);
  const url = (database: string) => `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
  const admin = postgres(url("postgres"), { max: 1, onnotice: () => {}, fetch_types: false });
  await reachable(admin, folder);
  const stop = async () => {
    await admin.end({ timeout: 1 });
    const exit = once(owner, "exit");
    owner.stdin!.end();
    await exit;
  };
  return { folder, owner, admin, url, stop };
}

/** $1 the folder of the binaries, $2 the data folder, $3 the server's settings, $4 the URL of its primary or nothing. */
const OWNER = `
trap '' INT TERM HUP
as_postgres() {
  if [ "$(id -u)" = 0 ]; then exec setpriv --reuid postgres --regid postgres --clear-groups "$@"; else exec "$@"; fi
}
end() { [ -n "$server" ] && kill -INT "$server" && wait "$server"; server=; }
start() { (as_postgres "$1/postgres" -D "$2/data" $3 </dev/null >>"$2/log" 2>&1) & server=$!; echo started; }
server=
make_data() {
  if [ -n "$4" ]; then
    as_postgres "$1/pg_basebackup" -d "$4" -D "$2/data" --write-recovery-conf --checkpoint=fast --no-sync
  else
    as_postgres "$1/initdb" -D "$2/data" -U postgres -A scram-sha-256 --pwfile="$2/password" \
      --encoding=UTF8 --locale=C.UTF-8 --no-sync
  fi
}
mkdir -m 700 "$2/data"
if [ "$(id -u)" = 0 ]; then chown postgres "$2" "$2/data" "$2/password"; fi
if (make_data "$@" </dev/null >"$2/log" 2>&1); then
  start "$@"
  while read -r line; do
    case $line in
      halt) end; echo halted ;;
      resume) start "$@" ;;
    esac
  done
  end
else
  cat "$2/log" >&2
fi
rm -rf "$2"
`;

function binaries(): string {
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  const found = versions
    .map((version) => join(root, version, "bin"))
    .find((bin) => existsSync(join(bin, "initdb")));
  if (!found) throw new Error(`no PostgreSQL server under ${root}: apt-get install postgresql-15`);
  return found;
}

/** Waits for a word of the owner's. */
function said(owner: ChildProcess, word: string, folder: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (act: () => void) => {
      owner.stdout!.off("data", onData);
      owner.off("exit", onExit);
      act();
    };
    const onData = (chunk: Buffer) => {
      if (chunk.toString().includes(word)) finish(resolve);
    };
    const onExit = () => finish(() => reject(new Error(`PostgreSQL in ${folder} was not ${word}`)));
    owner.stdout!.on("data", onData);
    owner.on("exit", onExit);
  });
}

async function reachable(admin: postgres.Sql, folder: string): Promise<void> {
  const deadline = performance.now() + 60_000;
  for (;;) {
    try {
      await admin`select 1`;
      return;
    } catch (error) {
      if (performance.now() > deadline) {
        const log = existsSync(join(folder, "log")) ? readFileSync(join(folder, "log"), "utf8") : "";
        throw new Error(`PostgreSQL in ${folder} does not answer:\n${log.slice(-2000)}`, { cause: error });
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
