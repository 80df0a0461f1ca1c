-- A statement sees what was committed before it began, also where it has waited for a lock since (READ COMMITTED). What a
-- lock protects is therefore read by a statement that begins when the lock is held: these functions lock first, and read
-- and write next.

-- Puts an observation into the task's sandbox, with the number after the last one's.
-- outcome: added, known (this idempotency key has added it before), reused (it has added another one), over (the task has
-- ended), full (so many wait that there is no room); null where the owner has no such task.
create function dsec_add_observation(
  task text, owner text, author text, once text, text_ text, waiting_max integer,
  out outcome text, out state text, out holder text, out place integer, out noted_at timestamptz
)
language plpgsql set enable_seqscan = off set jit = off
as $$
declare
  lease text;
  before record;
begin
  select t.state, t.lease_id into state, lease from tasks t
  where t.id = task and (owner is null or t.key_id = owner) for no key update;
  if not found then return; end if;
  select o.seq, o.at, o.key_id = author and o.content::jsonb = text_::jsonb as is_same into before from observations o
  where o.task_id = task and o.idempotency_key = once;
  if found then
    outcome := case when before.is_same then 'known' else 'reused' end;
    place := before.seq;
    noted_at := before.at;
    return;
  end if;
  outcome := case
    when state <> 'queued' then 'over'
    when (select count(*) from observations o where o.task_id = task and o.received_fence is null) >= waiting_max
      then 'full' end;
  if outcome is not null then return; end if;
  outcome := 'added';
  select l.executor_id into holder from leases l where l.id = lease;
  place := (select coalesce(max(o.seq), 0) + 1 from observations o where o.task_id = task);
  noted_at := dsec_now();
  insert into observations (task_id, seq, key_id, idempotency_key, at, content)
  values (task, place, author, once, noted_at, text_);
end
$$;
--> statement-breakpoint
-- Appends a part of a trajectory where what is known of it ends; `end_bytes` is where that is. `task` is null where the
-- lease is not held.
create function dsec_append_trajectory(
  executor text, lease text, lease_fence bigint, at_ bigint, size integer, its_digest text, its_content bytea,
  out task text, out end_bytes bigint, out added boolean
)
language plpgsql set enable_seqscan = off set jit = off
as $$
declare
  its_attempt integer;
begin
  select l.task_id, l.attempt into task, its_attempt from leases l
  where l.id = lease and l.fence = lease_fence and l.executor_id = executor and l.expires_at > dsec_now()
  for no key update;
  if not found then return; end if;
  end_bytes := coalesce((
    select p.at_bytes + p.size_bytes from trajectory_parts p
    where p.task_id = task and p.fence = lease_fence order by p.at_bytes desc limit 1
  ), 0);
  added := end_bytes = at_;
  if not added then return; end if;
  insert into trajectory_parts (task_id, fence, at_bytes, attempt, size_bytes, digest, content)
  values (task, lease_fence, at_, its_attempt, size, its_digest, its_content);
end
$$;
--> statement-breakpoint
-- Cancels a task. Queued: it ends at once, and nobody will receive what waits for it. Held: the holder, which is in the
-- answer, is told. No row where the task is final, unknown or another key's.
create function dsec_cancel(task text, owner text, ended_with text) returns table (executor_id text)
language plpgsql set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
begin
  return query
  with named as materialized (
    select t.id, t.lease_id, t.priority, t.rank from tasks t where t.id = task and (owner is null or t.key_id = owner)
  ),
  taken as (
    delete from queue q using named n where q.priority = n.priority and q.rank = n.rank and q.task_id = n.id
    returning q.task_id
  ),
  ended as (
    update tasks t set state = 'cancelled', reason = 'cancelled', cancel_requested = true, result = ended_with::json,
      finished_at = dsec_now(), last_seq = t.last_seq + 1
    where t.id = any (array(select k.task_id from taken k))
    returning t.state
  ),
  counted as (
    insert into end_counts as c (state, part, count) select e.state, pg_backend_pid() % 64, 1 from ended e
    on conflict (state, part) do update set count = c.count + 1
  ),
  asked as (
    update leases l set cancel_requested = true where l.id = any (array(select n.lease_id from named n))
    returning l.executor_id
  )
  select null from ended union all select a.executor_id from asked a;
  update observations o set received_fence = 0
  where o.task_id = task and o.received_fence is null
    and exists (select from tasks t where t.id = task and t.state <> 'queued');
end
$$;
--> statement-breakpoint
-- As it was (0001), but that the observations of tasks that have ended are looked for last: also those that were added
-- while the end waited for their task.
create or replace function dsec_end(
  lease_ids text[], fences bigint[], executor_ids text[], hows text[], last_states text[], reasons text[],
  results text[], artifacts text[], attestation_ids text[], jwts text[], evidences text[], issued_ats text[],
  next_lease_ids text[], backoffs_ms integer[], lost_while_cancelled text
) returns table (
  place integer, id text, key_id text, state text, spec json, spec_digest text, attempts integer, fence bigint,
  executor_id text, cancel_requested boolean, created_at timestamptz, started_at timestamptz, finished_at timestamptz,
  attestation_id text, reason text, last_seq integer
)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_material = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
  with gone as (
    delete from leases l
    using unnest(lease_ids, fences, executor_ids, hows, last_states, reasons, results, artifacts, attestation_ids,
      jwts, evidences, issued_ats, next_lease_ids) with ordinality
      i (lease_id, fence, executor_id, how, last_state, reason, result, artifacts, attestation_id, jwt, evidence,
         issued_at, next_lease_id, place)
    where l.id = i.lease_id and l.fence = i.fence and l.executor_id = i.executor_id
      and (l.expires_at <= dsec_now()) = (i.how = 'expired')
    returning i.*, l.task_id, l.cancel_requested, l.attempt, l.granted_at, l.leased_seq, l.started_at, l.started_seq,
      l.last_seq + 1 as seq, dsec_now() as at,
      case when i.last_state is not null then i.last_state
           when l.cancel_requested then 'cancelled'
           when i.how = 'released' or l.attempt < l.attempts_max then 'queued'
           else 'dead' end as next
  ), ended as (
    update tasks t set
      state = g.next, fence = g.fence, last_seq = g.seq, cancel_requested = g.cancel_requested,
      attempts = case when g.how = 'released' then g.attempt - 1 else g.attempt end,
      lease_id = case when g.next = 'queued' then g.next_lease_id else t.lease_id end,
      executor_id = case when g.next <> 'queued' then g.executor_id end,
      lease_end = case when g.next <> 'queued' then g.how end,
      leased_at = case when g.next <> 'queued' then g.granted_at end,
      leased_seq = case when g.next <> 'queued' then g.leased_seq end,
      started_at = case when g.next <> 'queued' then g.started_at end,
      started_seq = case when g.next <> 'queued' then g.started_seq end,
      finished_at = case when g.next <> 'queued' then g.at end,
      reason = case when g.next = 'cancelled' then 'cancelled' when g.next <> 'queued' then g.reason end,
      result = case when g.next = 'queued' then null
                    when g.how = 'expired' and g.next = 'cancelled' then lost_while_cancelled
                    else g.result end::json,
      attestation_id = case when g.next <> 'queued' then g.attestation_id end
    from gone g where t.id = g.task_id
    returning t.*, g.place, g.how, g.at, g.artifacts, g.executor_id as holder
  ), freed as (
    insert into holdings (executor_id, amounts)
    select e.holder, array[-sum(e.resources[1]), -sum(e.resources[2]), -sum(e.resources[3]), -sum(e.resources[4]),
      -sum(e.resources[5]), -sum(e.resources[6]), -sum(e.resources[7])]
    from ended e group by e.holder
  ), again as (
    insert into queue (priority, rank, available_at, task_id, lease_id, key_id, fence, attempts, attempts_max, last_seq,
      image_name, cpu_millis, memory_mb, gpu_memory_mb, disk_iops, network_mbps, pids, disk_mb, spec_digest, spec)
    select e.priority, e.rank,
           case when e.how = 'released' then e.at else e.at + backoffs_ms[e.attempts] * interval '1 ms' end,
           e.id, e.lease_id, e.key_id, e.fence, e.attempts, e.attempts_max, e.last_seq, e.image_name,
           e.resources[1], e.resources[2], e.resources[3], e.resources[4], e.resources[5], e.resources[6],
           e.resources[7], e.spec_digest, dsec_queued_spec(e.spec)
    from ended e where e.state = 'queued'
  ), past as (
    insert into past_leases (id, task_id, fence, executor_id, lease_end)
    select g.lease_id, g.task_id, g.fence, g.executor_id, g.how from gone g where g.next = 'queued'
  ), told as (
    insert into task_events (task_id, seq, at, type, fence, state, reason)
    select g.task_id, s.seq, s.at, 'state', g.fence, s.state, s.reason
    from gone g cross join lateral (values
      (g.leased_seq, g.granted_at, 'leased', null), (g.started_seq, g.started_at, 'running', null),
      (g.seq, g.at, 'queued', g.reason)
    ) s (seq, at, state, reason)
    where g.next = 'queued' and s.seq is not null
  ), attested as (
    insert into attestations (id, task_id, fence, jwt, evidence, issued_at)
    select g.attestation_id, g.task_id, g.fence, g.jwt, g.evidence, g.issued_at::timestamptz
    from gone g where g.attestation_id is not null
  ), known as (
    insert into artifacts (key_id, digest, size_bytes, created_at)
    select e.key_id, split_part(a, '=', 1), max(split_part(a, '=', 2)::bigint), max(e.at)
    from ended e cross join lateral unnest(string_to_array(e.artifacts, ' ')) a
    group by 1, 2 order by 1, 2
    on conflict do nothing
  ), counted as (
    insert into end_counts as c (state, part, count)
    select g.next, pg_backend_pid() % 64, count(*) from gone g where g.next <> 'queued' group by g.next order by g.next
    on conflict (state, part) do update set count = c.count + excluded.count
  )
  select e.place::integer, e.id, e.key_id, e.state, e.spec, e.spec_digest, e.attempts, e.fence, e.executor_id,
         e.cancel_requested, e.created_at, e.started_at, e.finished_at, e.attestation_id, e.reason, e.last_seq
  from ended e;
  -- The task of a lease that is not its last has another attempt to come, which is given what waits.
  update observations o set received_fence = 0
  where o.task_id = any (array(
      select t.id from unnest(lease_ids) i (lease_id) join tasks t on t.lease_id = i.lease_id where t.state <> 'queued'
    )) and o.received_fence is null;
end
$$;
--> statement-breakpoint
-- What waits for tasks that have ended.
update observations o set received_fence = 0 from tasks t
where t.id = o.task_id and t.state <> 'queued' and o.received_fence is null;
