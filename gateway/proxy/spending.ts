import { DsecError } from "#core/errors.ts";
import type { TaskId } from "#core/ids.ts";
import { NOTHING_USED, type Refused, takeBytes, type Usage } from "#core/policy/budget.ts";
import type { PolicyBudgets } from "#core/wire/policy.ts";
import type { Store } from "../ports.ts";

/** What the running calls of this process have moved, on top of what the database knows of their tasks. */
export class Spending {
  readonly #store: Pick<Store, "takeCall">;
  readonly #tasks = new Map<TaskId, { usage: Usage; calls: number }>();

  constructor(store: Pick<Store, "takeCall">) {
    this.#store = store;
  }

  open(taskId: TaskId, budgets: PolicyBudgets): CallSpending {
    const task = this.#tasks.get(taskId) ?? { usage: NOTHING_USED, calls: 0 };
    task.calls++;
    this.#tasks.set(taskId, task);
    const limited = Object.keys(budgets).length > 0;
    const spent = { calls: 0, bytes_up: 0, bytes_down: 0 };

    return {
      spent,
      takeCall: async (host) => {
        if (!limited) {
          spent.calls++;
          return;
        }
        const taken = await this.#store.takeCall(taskId, host, budgets);
        if (!taken.allowed) throw refused(taskId, taken);
        const { bytes_up, bytes_down } = taken.usage;
        task.usage = {
          calls: taken.usage.calls,
          bytes_up: Math.max(task.usage.bytes_up, bytes_up),
          bytes_down: Math.max(task.usage.bytes_down, bytes_down),
        };
      },
      move(direction, bytes) {
        spent[direction] += bytes;
        const taken = takeBytes(budgets, task.usage, direction, bytes);
        task.usage = taken.usage;
        if (!taken.allowed) throw refused(taskId, taken);
      },
      close: () => {
        task.calls--;
        if (task.calls === 0) this.#tasks.delete(taskId);
      },
    };
  }
}

export type CallSpending = {
  /** What the receipt adds to the task's usage. Calls that came out of a budget are counted there already. */
  readonly spent: Usage;
  /** One hop to a host. BUDGET_EXHAUSTED, CALL_RATE_LIMITED. */
  takeCall(host: string): Promise<void>;
  /** Bytes that have just moved; they are spent even where this throws BUDGET_EXHAUSTED. */
  move(direction: "bytes_up" | "bytes_down", bytes: number): void;
  close(): void;
};

function refused(taskId: TaskId, { code, message, retryAfterMs }: Refused): DsecError {
  const details = retryAfterMs === null ? undefined : { retry_after_ms: retryAfterMs };
  return new DsecError(code, `${taskId}: ${message}`, details === undefined ? {} : { details });
}
