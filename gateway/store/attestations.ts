import type { AttestationId, TaskId } from "#core/ids.ts";
import type { Store } from "#gateway/ports.ts";
import type { StoreContext } from "./store.ts";
import { taskNotFound } from "./tasks.ts";

/** Reading attestations; they are written by the statement that ends the lease (leases.ts). */
export function attestationStore({ sql }: StoreContext): Pick<Store, "listAttestations"> {
  return {
    async listAttestations(taskId, keyId) {
      const rows = await sql.query<AttestationRow>(
        `select t.id as task_id, a.id, a.fence, a.jwt, a.evidence, a.issued_at
         from tasks t left join attestations a on a.task_id = t.id
         where t.id = $1 and ($2::text is null or t.key_id = $2)
         order by a.fence desc`,
        [taskId, keyId],
      );
      if (rows.length === 0) throw taskNotFound(taskId);
      return rows.flatMap(({ id, fence, jwt, evidence, issued_at, task_id }) =>
        id === null
          ? []
          : [{ id, task_id, fence: Number(fence), jwt, evidence, issued_at: issued_at.toISOString() }],
      );
    },
  };
}

type AttestationRow = {
  task_id: TaskId;
  id: AttestationId | null;
  fence: string;
  jwt: string;
  evidence: string;
  issued_at: Date;
};
