/** Policies that replace the one a task was submitted with. The spec, which is attested, stays as it was. */
import { DsecError } from "#core/errors.ts";
import type { TaskState } from "#core/task.ts";
import type { Store } from "#gateway/ports.ts";
import { storedPolicy } from "./calls.ts";
import type { StoreContext } from "./store.ts";
import { taskNotFound } from "./tasks.ts";
import { storableJson } from "./text.ts";

export function policyStore({ sql }: StoreContext): Pick<Store, "getPolicy" | "replacePolicy"> {
  return {
    async getPolicy(taskId, keyId) {
      const [row] = await sql.query<{ policy: unknown; updated_at: Date | null }>(
        `select coalesce(p.policy, (t.spec -> 'policy')::jsonb) as policy, p.updated_at
         from tasks t left join task_policies p on p.task_id = t.id
         where t.id = $1 and ($2::text is null or t.key_id = $2)`,
        [taskId, keyId],
      );
      if (!row) throw taskNotFound(taskId);
      return { policy: storedPolicy(row.policy), updatedAt: row.updated_at?.toISOString() ?? null };
    },

    async replacePolicy(taskId, keyId, policy) {
      const [row] = await sql.query<{ updated_at: Date }>(
        `insert into task_policies as p (task_id, policy, updated_at)
         select t.id, $3::text::jsonb, dsec_now() from tasks t
         where t.id = $1 and ($2::text is null or t.key_id = $2) and t.state in ('queued', 'leased', 'running')
         on conflict (task_id) do update set policy = excluded.policy, updated_at = excluded.updated_at
         returning p.updated_at`,
        [taskId, keyId, storableJson(policy)],
      );
      if (row) return { updatedAt: row.updated_at.toISOString() };
      const [task] = await sql.query<{ state: TaskState }>(
        "select state from tasks t where t.id = $1 and ($2::text is null or t.key_id = $2)",
        [taskId, keyId],
      );
      if (!task) throw taskNotFound(taskId);
      throw new DsecError("TASK_ALREADY_FINISHED", `task ${taskId} is ${task.state}: it makes no more calls`);
    },
  };
}
