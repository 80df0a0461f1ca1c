-- Stores one task and, where that is possible, grants it at once to an executor that waits for one: what a submission and a
-- claim would come to (dsec_acquire), without a place in the queue in between. It is possible while nobody waits in the
-- queue, so that whose turn it is needs no comparing; the executor's row is not locked, for whoever has it decides about
-- the same room just now; and the task fits in `free`, which the executor offers, and in what its capacity leaves.
-- Otherwise the task is queued.
--
-- The answer has no row where the key has used the idempotency key before; `expires_at` is null where the task was queued.
-- A grant waits for the disk, because the task does.
create function dsec_submit_to(
  new_id text, owner text, once text, first_lease text, new_spec json, digest text, new_labels jsonb, image text,
  its_job text, asked integer[], its_priority smallint, tries integer,
  holder text, free bigint[], ttl_ms integer, lost_after_ms integer
) returns table (created_at timestamptz, rank bigint, expires_at timestamptz)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
declare
  axes constant integer := 7;
  at constant timestamptz := dsec_now();
  until timestamptz;
  place bigint;
  room record;
  held bigint[];
  fits boolean := false;
begin
  select x.capacity, x.images into room from executors x
  where x.id = holder and not x.draining and x.last_seen_at > at - lost_after_ms * interval '1 ms'
  for update skip locked;
  if found and not exists (select from queue) then
    held := (
      select array[
        coalesce(sum(h.amounts[1]), 0), coalesce(sum(h.amounts[2]), 0), coalesce(sum(h.amounts[3]), 0),
        coalesce(sum(h.amounts[4]), 0), coalesce(sum(h.amounts[5]), 0), coalesce(sum(h.amounts[6]), 0),
        coalesce(sum(h.amounts[7]), 0)]
      from holdings h where h.executor_id = holder);
    fits := image is null or room.images ? image;
    for a in 1 .. axes loop
      fits := fits and asked[a] <= least(free[a], room.capacity[a] - held[a]);
    end loop;
  end if;

  insert into shares as s (key_id, priority, last_rank)
  select owner, its_priority, coalesce((select t.rank from turns t where t.priority = its_priority), 0) + 1
  on conflict (key_id, priority) do update set last_rank = greatest(excluded.last_rank, s.last_rank + 1)
  returning s.last_rank into place;

  insert into tasks (id, key_id, idempotency_key, lease_id, spec_digest, spec, labels, image_name, job, resources,
    priority, rank, attempts_max, created_at, state, fence, attempts, cancel_requested, last_seq)
  values (new_id, owner, once, first_lease, digest, new_spec, new_labels, image, its_job, asked,
    its_priority, place, tries, at, 'queued', 0, 0, false, 1)
  on conflict do nothing;
  if not found then return; end if;

  if fits then
    until := at + ttl_ms * interval '1 ms';
    insert into holdings (executor_id, amounts) values (holder, asked);
    insert into leases (id, task_id, executor_id, fence, attempt, attempts_max, granted_at, leased_seq, expires_at,
      cancel_requested, last_seq)
    values (first_lease, new_id, holder, 1, 1, tries, at, 2, until, false, 2);
    -- As in a claim: virtual time need only be near.
    update turns t set rank = place
    where t.priority = its_priority and t.rank < place
      and t.priority in (select v.priority from turns v where v.priority = its_priority for update of v skip locked);
  else
    insert into queue (priority, rank, available_at, task_id, lease_id, key_id, fence, attempts, attempts_max, last_seq,
      image_name, cpu_millis, memory_mb, gpu_memory_mb, disk_iops, network_mbps, pids, disk_mb, spec_digest, spec)
    values (its_priority, place, at, new_id, first_lease, owner, 0, 0, tries, 1,
      image, asked[1], asked[2], asked[3], asked[4], asked[5], asked[6], asked[7], digest, dsec_queued_spec(new_spec));
  end if;
  return query select at, place, until;
end
$$;
