import { DsecError } from "#core/errors.ts";
import type { Store } from "#gateway/ports.ts";
import type { Wake } from "#gateway/wake-port.ts";
import { artifactStore } from "./artifacts.ts";
import { attestationStore } from "./attestations.ts";
import { callStore } from "./calls.ts";
import { executorStore } from "./executors.ts";
import { keyStore } from "./keys.ts";
import { leaseStore } from "./leases.ts";
import { messageStore } from "./messages.ts";
import { observationStore } from "./observations.ts";
import { Offers } from "./offers.ts";
import { policyStore } from "./policies.ts";
import { receiptStore } from "./receipts.ts";
import { secretStore } from "./secrets.ts";
import type { Sql } from "./sql.ts";
import { taskStore } from "./tasks.ts";
import { trajectoryStore } from "./trajectories.ts";
import { waitStore } from "./waits.ts";

/** What each part of the store works with. */
export type StoreContext = {
  sql: Sql;
  wake: Wake;
  /** How long a lease lives without being renewed; LIMITS.leaseTtlMs unless given. */
  leaseTtlMs?: number;
};

/** The same within the store, whose parts share what stands between submissions and claims, and end together. */
export type SharedContext = StoreContext & {
  offers: Offers;
  /** Aborts when the store closes. */
  closing: AbortSignal;
};

/** The store over a database that `migrate` has brought up to date. Owns `sql` from here on. */
export function createStore(context: StoreContext): Store {
  const { sql } = context;
  const closing = new AbortController();
  const shared: SharedContext = { ...context, offers: new Offers(), closing: closing.signal };
  const leases = leaseStore(shared);
  return {
    ...keyStore(context),
    ...artifactStore(context),
    ...taskStore(shared, leases),
    ...leases,
    ...waitStore(context),
    ...executorStore(context),
    ...callStore(context),
    ...receiptStore(context, leases),
    ...policyStore(context),
    ...secretStore(context),
    ...observationStore(context),
    ...messageStore(context, leases),
    ...attestationStore(context),
    ...trajectoryStore(context, leases),
    async ping() {
      try {
        await sql.query("select 1");
      } catch (cause) {
        throw new DsecError("STORE_UNAVAILABLE", "the database does not answer", { cause });
      }
    },
    close() {
      closing.abort();
      return sql.close();
    },
  };
}
