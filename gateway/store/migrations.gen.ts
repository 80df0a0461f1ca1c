// Written by setup/migrations.ts from migrations/*.sql; do not edit.
export const MIGRATIONS: readonly { name: string; sql: string }[] = [
  {
    name: "0000_tables",
    sql: `CREATE TABLE "artifacts" (
	"key_id" text NOT NULL,
	"digest" text NOT NULL,
	"size_bytes" bigint NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	CONSTRAINT "artifacts_key_id_digest_pk" PRIMARY KEY("key_id","digest")
);

CREATE TABLE "attestations" (
	"id" text NOT NULL,
	"task_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"jwt" text NOT NULL,
	"evidence" text NOT NULL,
	"issued_at" timestamp with time zone NOT NULL,
	CONSTRAINT "attestations_task_id_fence_pk" PRIMARY KEY("task_id","fence")
);

CREATE TABLE "end_counts" (
	"state" text NOT NULL,
	"part" smallint NOT NULL,
	"count" bigint NOT NULL,
	CONSTRAINT "end_counts_state_part_pk" PRIMARY KEY("state","part")
);

CREATE TABLE "executors" (
	"id" text PRIMARY KEY NOT NULL,
	"public_key_x" text NOT NULL,
	"capacity" integer[] NOT NULL,
	"free" integer[] NOT NULL,
	"images" jsonb NOT NULL,
	"running" integer NOT NULL,
	"build" text NOT NULL,
	"host" jsonb NOT NULL,
	"draining" boolean NOT NULL,
	"enrolled_at" timestamp with time zone NOT NULL,
	"last_seen_at" timestamp with time zone NOT NULL,
	CONSTRAINT "executors_public_key" UNIQUE("public_key_x")
);

CREATE TABLE "holdings" (
	"executor_id" text NOT NULL,
	"amounts" bigint[] NOT NULL
);

CREATE TABLE "keys" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"scopes" jsonb NOT NULL,
	"secret_hash" "bytea" NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"expires_at" timestamp with time zone,
	"revoked_at" timestamp with time zone,
	"last_used_at" timestamp with time zone
);

CREATE TABLE "leases" (
	"id" text PRIMARY KEY NOT NULL,
	"task_id" text NOT NULL,
	"executor_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"attempt" integer NOT NULL,
	"attempts_max" integer NOT NULL,
	"granted_at" timestamp with time zone NOT NULL,
	"leased_seq" integer NOT NULL,
	"expires_at" timestamp with time zone NOT NULL,
	"cancel_requested" boolean NOT NULL,
	"last_seq" integer NOT NULL,
	"started_at" timestamp with time zone,
	"started_seq" integer
);

CREATE TABLE "past_leases" (
	"id" text PRIMARY KEY NOT NULL,
	"task_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"executor_id" text NOT NULL,
	"lease_end" text NOT NULL
);

CREATE TABLE "queue" (
	"rank" bigint NOT NULL,
	"available_at" timestamp with time zone NOT NULL,
	"fence" bigint NOT NULL,
	"attempts" integer NOT NULL,
	"attempts_max" integer NOT NULL,
	"last_seq" integer NOT NULL,
	"cpu_millis" integer NOT NULL,
	"memory_mb" integer NOT NULL,
	"gpu_memory_mb" integer NOT NULL,
	"disk_iops" integer NOT NULL,
	"network_mbps" integer NOT NULL,
	"pids" integer NOT NULL,
	"disk_mb" integer NOT NULL,
	"priority" smallint NOT NULL,
	"task_id" text NOT NULL,
	"lease_id" text NOT NULL,
	"key_id" text NOT NULL,
	"spec_digest" text NOT NULL,
	"image_name" text,
	"spec" json
);

CREATE TABLE "shares" (
	"key_id" text NOT NULL,
	"priority" smallint NOT NULL,
	"last_rank" bigint NOT NULL,
	CONSTRAINT "shares_key_id_priority_pk" PRIMARY KEY("key_id","priority")
);

CREATE TABLE "task_events" (
	"task_id" text NOT NULL,
	"seq" integer NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"type" text NOT NULL,
	"fence" bigint NOT NULL,
	"state" text,
	"reason" text,
	"stream" text,
	"offset" bigint,
	"data" text,
	CONSTRAINT "task_events_task_id_seq_pk" PRIMARY KEY("task_id","seq")
);

CREATE TABLE "tasks" (
	"id" text PRIMARY KEY NOT NULL,
	"key_id" text NOT NULL,
	"idempotency_key" text,
	"lease_id" text NOT NULL,
	"spec_digest" text NOT NULL,
	"spec" json NOT NULL,
	"labels" jsonb NOT NULL,
	"image_name" text,
	"resources" integer[] NOT NULL,
	"priority" smallint NOT NULL,
	"rank" bigint NOT NULL,
	"attempts_max" integer NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"state" text NOT NULL,
	"fence" bigint NOT NULL,
	"attempts" integer NOT NULL,
	"executor_id" text,
	"lease_end" text,
	"cancel_requested" boolean NOT NULL,
	"last_seq" integer NOT NULL,
	"leased_at" timestamp with time zone,
	"leased_seq" integer,
	"started_at" timestamp with time zone,
	"started_seq" integer,
	"finished_at" timestamp with time zone,
	"reason" text,
	"result" json,
	"attestation_id" text
);

CREATE TABLE "turns" (
	"priority" smallint PRIMARY KEY NOT NULL,
	"rank" bigint NOT NULL
);

CREATE INDEX "holdings_by_executor" ON "holdings" USING btree ("executor_id");
CREATE INDEX "leases_cancelled" ON "leases" USING btree ("executor_id") WHERE cancel_requested;
CREATE INDEX "queue_order" ON "queue" USING btree ("priority" desc,"rank","task_id");
CREATE INDEX "tasks_by_key" ON "tasks" USING btree ("key_id","id");
CREATE UNIQUE INDEX "tasks_lease" ON "tasks" USING btree ("lease_id");
CREATE UNIQUE INDEX "tasks_idempotency" ON "tasks" USING btree ("key_id","idempotency_key") WHERE idempotency_key is not null;
CREATE INDEX "tasks_labels" ON "tasks" USING gin (labels jsonb_path_ops) WHERE labels <> '{}'::jsonb;`,
  },
  {
    name: "0001_claims",
    sql: `-- Ids are ASCII and compared on every index descent: byte order, whatever the database's locale.
alter table tasks alter column id type text collate "C", alter column key_id type text collate "C",
  alter column lease_id type text collate "C", alter column executor_id type text collate "C";
alter table queue alter column task_id type text collate "C", alter column lease_id type text collate "C",
  alter column key_id type text collate "C";
alter table leases alter column id type text collate "C", alter column task_id type text collate "C",
  alter column executor_id type text collate "C";
alter table holdings alter column executor_id type text collate "C";
alter table past_leases alter column id type text collate "C", alter column task_id type text collate "C",
  alter column executor_id type text collate "C";
alter table task_events alter column task_id type text collate "C";
alter table attestations alter column task_id type text collate "C";
alter table artifacts alter column key_id type text collate "C", alter column digest type text collate "C";
alter table shares alter column key_id type text collate "C";
alter table executors alter column id type text collate "C";
alter table keys alter column id type text collate "C";

-- Room on each page for the rows' second versions, which then need no new index entries: a task's end, and what
-- happens to a lease while it is held.
alter table tasks set (fillfactor = 40);
alter table leases set (fillfactor = 60);

-- The clock of every decision about time. Tests replace this one function to move it.
create function dsec_now() returns timestamptz
language sql volatile parallel safe
as $$ select clock_timestamp() $$;

-- Virtual time starts at zero for each priority that core/limits.ts allows.
insert into turns (priority, rank) select p, 0 from generate_series(-100, 100) as p;

-- A spec as the queue holds it: itself, unless storing it twice would cost more than looking it up.
create function dsec_queued_spec(spec json) returns json
language sql immutable parallel safe
as $$ select case when octet_length(spec::text) <= 1500 then spec end $$;

-- Claims tasks for many callers in one pass over the queue.
--
-- Request i is for the executor executor_ids[i], for at most maxes[i] leases, with frees[(i - 1) * 7 + a] free on axis a.
-- Each is answered on its own: what it gets fits its free vector in sum, and what its executor then holds fits the
-- executor's capacity in sum, so that an answer lost on the way cannot lead to an executor holding more than it has.
-- misses_max: how many tasks that pass the filter but fit nobody any more are looked at before giving up.
-- The answer has a row for each request and each 64 ranks of which it was granted any: a line of words for each lease in
-- \`leases\`, in any order, and their specs in \`specs\`. Taking 500 rows apart costs more than claiming them; but one row of
-- 500 would have to be there whole, and that is after the commit, before its receiver can begin with it.
--
-- Mostly the next tasks all fit, and are then granted as a set. Where they do not, a cursor takes one row at a time, so
-- that only tasks that are granted (and those few misses) are locked.
-- The planner's choice is pinned to the indexes: fresh tables have no statistics, and a sort of the queue
-- for each claim is what queues on PostgreSQL die of. The costs of what is off would also call the JIT compiler in.
create function dsec_acquire(
  executor_ids text[], frees bigint[], maxes integer[], ttl_ms integer, lost_after_ms integer, misses_max integer
) returns table (request integer, granted_at timestamptz, expires_at timestamptz, leases text, specs json)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off
set enable_mergejoin = off set enable_material = off set jit = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  axes constant integer := 7;
  entries_max constant integer := 32;
  at timestamptz;
  until timestamptz;
  executor record;
  task record;
  room_ids text[] := '{}';    -- executors that may be given work
  held bigint[];
  entries tid[];              -- those of one executor in the ledger
  rooms bigint[] := '{}';     -- what the capacity of executor e leaves on axis a, at (e - 1) * axes + a
  rooms_before bigint[];
  images jsonb[] := '{}';     -- names of the images that executor e can run
  all_images text[] := '{}';
  owners integer[];           -- executor of each request, as an index of room_ids; null where it may not be given work
  seats integer[];            -- the request that each lease which may be granted would be for
  most bigint[];              -- the most any request could take on an axis
  misses integer := 0;
  first_open integer := 1;
  chosen integer;
  owner integer;
  fits boolean;
  picked tid[];
  picked_requests integer[];
  line cursor for
    select q.ctid as tid, q.image_name, array[q.cpu_millis, q.memory_mb, q.gpu_memory_mb, q.disk_iops, q.network_mbps,
      q.pids, q.disk_mb] as resources from queue q
    where q.available_at <= at
      and q.cpu_millis <= most[1] and q.memory_mb <= most[2] and q.gpu_memory_mb <= most[3]
      and q.disk_iops <= most[4] and q.network_mbps <= most[5] and q.pids <= most[6] and q.disk_mb <= most[7]
      and (q.image_name is null or q.image_name = any (all_images))
    order by q.priority desc, q.rank, q.task_id
    for update of q skip locked;
begin
  -- Locked in id order: calls for the same executor take turns, so that two cannot both see the same room.
  for executor in
    select x.id, x.capacity, x.images from executors x
    where x.id = any (executor_ids) and not x.draining and x.last_seen_at > dsec_now() - lost_after_ms * interval '1 ms'
    order by x.id for update of x
  loop
    room_ids := room_ids || executor.id;
    images := images || executor.images;
    all_images := all_images || array(select jsonb_array_elements_text(executor.images));
    select array[
        coalesce(sum(h.amounts[1]), 0), coalesce(sum(h.amounts[2]), 0), coalesce(sum(h.amounts[3]), 0),
        coalesce(sum(h.amounts[4]), 0), coalesce(sum(h.amounts[5]), 0), coalesce(sum(h.amounts[6]), 0),
        coalesce(sum(h.amounts[7]), 0)
      ], array_agg(h.ctid)
    into held, entries from holdings h where h.executor_id = executor.id;
    for a in 1 .. axes loop rooms := rooms || executor.capacity[a] - held[a]; end loop;
    if cardinality(entries) > entries_max then
      delete from holdings h where h.ctid = any (entries);
      insert into holdings (executor_id, amounts) values (executor.id, held);
    end if;
  end loop;

  -- Only now: what was queued while this call waited for its turn may be taken too.
  at := dsec_now();
  owners := array(
    select array_position(room_ids, a.executor_id) from unnest(executor_ids) with ordinality a(executor_id, place)
    order by a.place
  );
  seats := array(
    select r from generate_subscripts(owners, 1) r cross join generate_series(1, maxes[r]) where owners[r] is not null
    order by r
  );
  if cardinality(seats) = 0 then return; end if;
  most := array(
    select (select max(least(frees[(r - 1) * axes + a], rooms[(owners[r] - 1) * axes + a]))
            from generate_subscripts(owners, 1) r where owners[r] is not null and maxes[r] > 0)
    from generate_series(1, axes) a order by a
  );

  with asked as materialized (
    select n.request, array_agg(n.tid) as tids,
           sum(n.cpu_millis) as s1, sum(n.memory_mb) as s2, sum(n.gpu_memory_mb) as s3, sum(n.disk_iops) as s4,
           sum(n.network_mbps) as s5, sum(n.pids) as s6, sum(n.disk_mb) as s7,
           bool_and(n.image_name is null or images[owners[n.request]] ? n.image_name) as runs
    from (
      select seats[row_number() over ()] as request, m.* from (
        select q.ctid as tid, q.cpu_millis, q.memory_mb, q.gpu_memory_mb, q.disk_iops, q.network_mbps, q.pids,
          q.disk_mb, q.image_name from queue q
        where q.available_at <= at
          and q.cpu_millis <= most[1] and q.memory_mb <= most[2] and q.gpu_memory_mb <= most[3]
          and q.disk_iops <= most[4] and q.network_mbps <= most[5] and q.pids <= most[6] and q.disk_mb <= most[7]
          and (q.image_name is null or q.image_name = any (all_images))
        order by q.priority desc, q.rank, q.task_id limit cardinality(seats)
        for update of q skip locked
      ) m
    ) n group by n.request
  ), owned as (
    select owners[s.request] as owner, sum(s.s1) as s1, sum(s.s2) as s2, sum(s.s3) as s3, sum(s.s4) as s4,
           sum(s.s5) as s5, sum(s.s6) as s6, sum(s.s7) as s7
    from asked s group by 1
  ), verdict as materialized (
    select coalesce((select bool_and(s.runs
      and s.s1 <= frees[(s.request - 1) * axes + 1] and s.s2 <= frees[(s.request - 1) * axes + 2]
      and s.s3 <= frees[(s.request - 1) * axes + 3] and s.s4 <= frees[(s.request - 1) * axes + 4]
      and s.s5 <= frees[(s.request - 1) * axes + 5] and s.s6 <= frees[(s.request - 1) * axes + 6]
      and s.s7 <= frees[(s.request - 1) * axes + 7]) from asked s), true)
    and coalesce((select bool_and(
      h.s1 <= rooms[(h.owner - 1) * axes + 1] and h.s2 <= rooms[(h.owner - 1) * axes + 2]
      and h.s3 <= rooms[(h.owner - 1) * axes + 3] and h.s4 <= rooms[(h.owner - 1) * axes + 4]
      and h.s5 <= rooms[(h.owner - 1) * axes + 5] and h.s6 <= rooms[(h.owner - 1) * axes + 6]
      and h.s7 <= rooms[(h.owner - 1) * axes + 7]) from owned h), true) as fits
  ), entered as (
    insert into holdings (executor_id, amounts)
    select room_ids[o.owner], array[o.s1, o.s2, o.s3, o.s4, o.s5, o.s6, o.s7] from owned o
    where (select v.fits from verdict v)
  )
  select v.fits, array(select unnest(s.tids) from asked s order by s.request) from verdict v
  into fits, picked;
  picked_requests := seats[1:cardinality(picked)]; -- as they were numbered above

  if not fits then
    picked := '{}';
    picked_requests := '{}';
    rooms_before := rooms;
    open line;
    while cardinality(picked) < cardinality(seats) and misses < misses_max loop
      fetch line into task;
      exit when not found;
      chosen := 0;
      for i in first_open .. cardinality(owners) loop
        if owners[i] is null or maxes[i] = 0 then
          if i = first_open then first_open := i + 1; end if;
          continue;
        end if;
        owner := owners[i];
        continue when task.image_name is not null and not images[owner] ? task.image_name;
        fits := true;
        for a in 1 .. axes loop
          if task.resources[a] > frees[(i - 1) * axes + a] or task.resources[a] > rooms[(owner - 1) * axes + a] then
            fits := false;
            exit;
          end if;
        end loop;
        if fits then
          chosen := i;
          exit;
        end if;
      end loop;
      if chosen = 0 then
        misses := misses + 1;
        continue;
      end if;
      for a in 1 .. axes loop
        if task.resources[a] > 0 then
          frees[(chosen - 1) * axes + a] := frees[(chosen - 1) * axes + a] - task.resources[a];
          rooms[(owner - 1) * axes + a] := rooms[(owner - 1) * axes + a] - task.resources[a];
        end if;
      end loop;
      maxes[chosen] := maxes[chosen] - 1;
      picked := picked || task.tid;
      picked_requests := picked_requests || chosen;
    end loop;
    close line;
    insert into holdings (executor_id, amounts)
    select room_ids[e], array(
      select rooms_before[i] - rooms[i] from generate_series((e - 1) * axes + 1, e * axes) i order by i)
    from generate_subscripts(room_ids, 1) e
    where rooms_before[(e - 1) * axes + 1 : e * axes] <> rooms[(e - 1) * axes + 1 : e * axes];
  end if;

  if cardinality(picked) = 0 then return; end if;
  -- Nobody waits for the disk: a claim that is lost with the machine was never made. Whatever its holder does in the world
  -- is recorded first, by a commit that is waited for and brings all commits before it to the disk.
  perform set_config('synchronous_commit', 'off', true);
  until := dsec_now() + ttl_ms * interval '1 ms';
  return query
  with taken as (
    -- The rows are locked and never updated, so that their places hold. One scan over all places, in their order, costs
    -- half of what a join does, and most claims of many tasks are one request's.
    delete from queue q where q.ctid = any (picked)
    returning case when cardinality(owners) = 1 then 1 else picked_requests[array_position(picked, q.ctid)] end
        as request,
      q.priority, q.rank, q.task_id, q.lease_id, q.key_id, q.fence + 1 as fence, q.attempts + 1 as attempt,
      q.attempts_max, q.last_seq + 1 as seq, q.spec_digest, q.spec
  ), granted as (
    insert into leases (id, task_id, executor_id, fence, attempt, attempts_max, granted_at, leased_seq, expires_at,
      cancel_requested, last_seq)
    select k.lease_id, k.task_id, room_ids[owners[k.request]], k.fence, k.attempt, k.attempts_max, at, k.seq, until,
      false, k.seq
    from taken k
  ), reached as (
    select k.priority, max(k.rank) as rank from taken k group by k.priority
  ), turned as (
    -- Whoever holds the row is bringing it up to date: virtual time need only be near, and claims must not queue for it.
    update turns u set rank = r.rank from reached r
    where u.priority = r.priority and u.rank < r.rank
      and u.priority in (select v.priority from turns v join reached using (priority) for update of v skip locked)
  )
  select k.request, at, until,
         string_agg(concat_ws(' ', k.rank, k.lease_id, k.task_id, k.key_id, k.fence, k.attempt, k.seq, k.spec_digest), E'\\n'),
         json_agg(coalesce(k.spec, (select t.spec from tasks t where t.id = k.task_id)))
  from taken k group by k.request, k.rank / 64;
end
$$;

-- Ends leases, of whichever tasks: item i is about lease_ids[i], if that lease is held with that fence by that executor.
-- What is not, is left as it is and missing in the answer.
--
-- hows: completed, failed, released, or expired; one that is to be \`expired\` must have run out, all others must not.
-- last_states: where the attempt's end leads to whatever came before; null where the task may have another attempt.
-- results: of the task, should it end now. artifacts: \`digest=bytes\`, parted by spaces, that its key may name from now on.
-- next_lease_ids: for the next attempt, should there be one.
-- backoffs_ms: before the attempt after the first, the second, …; one that was given back needs none and does not count.
--
-- The end, its event, the attestation and what the key may name from now on are one statement.
create function dsec_end(
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
  ), missed as (
    update observations o set received_fence = 0
    where o.task_id = any (array(select e.id from ended e where e.state <> 'queued')) and o.received_fence is null
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
end
$$;
`,
  },
  {
    name: "0002_calls",
    sql: `CREATE TABLE "call_rates" (
	"task_id" text NOT NULL,
	"host" text NOT NULL,
	"tokens" double precision NOT NULL,
	"at_ms" double precision NOT NULL,
	CONSTRAINT "call_rates_task_id_host_pk" PRIMARY KEY("task_id","host")
);

CREATE TABLE "call_usage" (
	"task_id" text PRIMARY KEY NOT NULL,
	"calls" bigint NOT NULL,
	"bytes_up" bigint NOT NULL,
	"bytes_down" bigint NOT NULL
);

CREATE TABLE "calls" (
	"task_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"seq" integer NOT NULL,
	"digest" text NOT NULL,
	"used_at" timestamp with time zone,
	"deadline_at" timestamp with time zone NOT NULL,
	CONSTRAINT "calls_task_id_fence_seq_pk" PRIMARY KEY("task_id","fence","seq")
);

CREATE TABLE "receipts" (
	"task_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"seq" integer NOT NULL,
	"lease_id" text NOT NULL,
	"jwt" text NOT NULL,
	"leaf" text NOT NULL,
	"issued_at" timestamp with time zone NOT NULL,
	CONSTRAINT "receipts_task_id_fence_seq_pk" PRIMARY KEY("task_id","fence","seq")
);

CREATE TABLE "secrets" (
	"key_id" text NOT NULL,
	"name" text NOT NULL,
	"hosts" jsonb NOT NULL,
	"sealed" text NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"updated_at" timestamp with time zone NOT NULL,
	CONSTRAINT "secrets_key_id_name_pk" PRIMARY KEY("key_id","name")
);

CREATE TABLE "task_policies" (
	"task_id" text PRIMARY KEY NOT NULL,
	"policy" jsonb NOT NULL,
	"updated_at" timestamp with time zone NOT NULL
);

-- Ids are compared in byte order, as everywhere (0001).
alter table calls alter column task_id type text collate "C";
alter table receipts alter column task_id type text collate "C", alter column lease_id type text collate "C";
alter table call_usage alter column task_id type text collate "C";
alter table call_rates alter column task_id type text collate "C", alter column host type text collate "C";
alter table task_policies alter column task_id type text collate "C";
alter table secrets alter column key_id type text collate "C", alter column name type text collate "C";
`,
  },
  {
    name: "0003_observations",
    sql: `CREATE TABLE "observations" (
	"task_id" text NOT NULL,
	"seq" integer NOT NULL,
	"key_id" text NOT NULL,
	"idempotency_key" text,
	"at" timestamp with time zone NOT NULL,
	"content" text NOT NULL,
	"received_fence" bigint,
	CONSTRAINT "observations_task_id_seq_pk" PRIMARY KEY("task_id","seq")
);

CREATE UNIQUE INDEX "observations_idempotency" ON "observations" USING btree ("task_id","idempotency_key") WHERE idempotency_key is not null;
CREATE INDEX "observations_waiting" ON "observations" USING btree ("task_id") WHERE received_fence is null;
-- Ids are compared in byte order, as everywhere (0001).
alter table observations alter column task_id type text collate "C", alter column key_id type text collate "C";
`,
  },
  {
    name: "0004_trajectories",
    sql: `CREATE TABLE "trajectory_parts" (
	"task_id" text NOT NULL,
	"fence" bigint NOT NULL,
	"at_bytes" bigint NOT NULL,
	"attempt" integer NOT NULL,
	"size_bytes" integer NOT NULL,
	"digest" text,
	"content" "bytea",
	CONSTRAINT "trajectory_parts_task_id_fence_at_bytes_pk" PRIMARY KEY("task_id","fence","at_bytes")
);

-- Ids are compared in byte order, as everywhere (0001).
alter table trajectory_parts alter column task_id type text collate "C";

-- A part lies in the blob store, or is so short that it stands here.
alter table trajectory_parts add constraint trajectory_parts_place check ((digest is null) <> (content is null));
`,
  },
  {
    name: "0005_messages",
    sql: `CREATE TABLE "channel_messages" (
	"channel_id" bigint NOT NULL,
	"id" bigint NOT NULL,
	"sender" text NOT NULL,
	"send_key" text NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"size_bytes" integer NOT NULL,
	"digest" text NOT NULL,
	"body" text,
	CONSTRAINT "channel_messages_channel_id_id_pk" PRIMARY KEY("channel_id","id")
);

CREATE TABLE "channel_readers" (
	"channel_id" bigint NOT NULL,
	"task_id" text NOT NULL,
	"acknowledged" bigint NOT NULL,
	CONSTRAINT "channel_readers_channel_id_task_id_pk" PRIMARY KEY("channel_id","task_id")
);

CREATE TABLE "channels" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "channels_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"key_id" text NOT NULL,
	"job" text NOT NULL,
	"name" text NOT NULL,
	"schema" text,
	"capacity" integer NOT NULL,
	"last_id" bigint NOT NULL,
	"gone_id" bigint NOT NULL,
	"messages" integer NOT NULL,
	"bytes" integer NOT NULL
);

ALTER TABLE "tasks" ADD COLUMN "job" text;
CREATE UNIQUE INDEX "channel_messages_sent" ON "channel_messages" USING btree ("channel_id","sender","send_key");
CREATE UNIQUE INDEX "channels_of_job" ON "channels" USING btree ("key_id","job","name");
CREATE INDEX "tasks_by_job" ON "tasks" USING btree ("key_id","job","id") WHERE job is not null;
-- Ids are compared in byte order, as everywhere (0001).
alter table tasks alter column job type text collate "C";
alter table channels alter column key_id type text collate "C", alter column job type text collate "C",
  alter column name type text collate "C";
alter table channel_messages alter column sender type text collate "C", alter column send_key type text collate "C";
alter table channel_readers alter column task_id type text collate "C";

update tasks set job = spec ->> 'job' where spec ->> 'job' is not null;

-- The channel of this name in the job of the task whose lease is held, locked until the transaction ends; made where it is
-- not there. Which job that is, is the lease's to say: no other can be named. \`task\` is null where the lease is not held,
-- \`channel.id\` where the job has no room for one more channel.
--
-- The lock on the lease lets it be renewed meanwhile, and not end. Statements in here come one after another and each
-- sees what was committed before it, so that what is read below the channel's lock is as it stands.
create function dsec_open_channel(
  executor text, lease text, lease_fence bigint, channel_name text, channels_max integer, messages_max integer,
  out task text, out channel channels
)
language plpgsql set enable_seqscan = off set jit = off
as $$
declare
  owner text;
  its_job text;
begin
  select t.id, t.key_id, coalesce(t.job, ':' || t.id) into task, owner, its_job
  from leases l join tasks t on t.id = l.task_id
  where l.id = lease and l.fence = lease_fence and l.executor_id = executor and l.expires_at > dsec_now()
  for key share of l;
  if task is null then return; end if;
  loop
    select c.* into channel from channels c
    where c.key_id = owner and c.job = its_job and c.name = channel_name for no key update;
    exit when channel.id is not null;
    if (select count(*) from channels c where c.key_id = owner and c.job = its_job) >= channels_max then return; end if;
    insert into channels (key_id, job, name, capacity, last_id, gone_id, messages, bytes)
    values (owner, its_job, channel_name, messages_max, 0, 0, 0, 0) on conflict do nothing;
  end loop;
end
$$;

-- Lets a task read a channel that is locked: it begins with what is not gone. False where there are readers enough.
create function dsec_join_channel(channel channels, task text, readers_max integer) returns boolean
language plpgsql set enable_seqscan = off set jit = off
as $$
begin
  if exists (select from channel_readers r where r.channel_id = channel.id and r.task_id = task) then return true; end if;
  if (select count(*) from channel_readers r where r.channel_id = channel.id) >= readers_max then return false; end if;
  insert into channel_readers (channel_id, task_id, acknowledged) values (channel.id, task, channel.gone_id);
  return true;
end
$$;

-- Lets go of what every reader of a locked channel has acknowledged; without readers everything stays for the first one.
-- Of a message that is gone its name stays, so that it is known when it is sent again, until \`keys_kept\` more are gone.
create function dsec_trim_channel(channel channels, keys_kept integer) returns void
language plpgsql set enable_seqscan = off set jit = off
as $$
declare
  through bigint;
begin
  select min(r.acknowledged) into through from channel_readers r where r.channel_id = channel.id;
  if through is null or through <= channel.gone_id then return; end if;
  with gone as (
    update channel_messages m set body = null
    where m.channel_id = channel.id and m.id > channel.gone_id and m.id <= through
    returning m.size_bytes
  )
  update channels c set
    gone_id = through, messages = c.messages - g.count, bytes = c.bytes - g.bytes
  from (select count(*)::integer as count, coalesce(sum(size_bytes), 0)::integer as bytes from gone) g
  where c.id = channel.id;
  delete from channel_messages m
  where m.channel_id = channel.id and m.id > channel.gone_id - keys_kept and m.id <= through - keys_kept;
end
$$;

-- Appends a message that the caller has judged by the rule \`judged_by\` (null where it knows none).
-- outcome: sent (also where it was sent before), lost (the lease), no_room (for another channel), unjudged (\`rule\` is the
-- channel's now), full (with \`waiting\` messages), reused (the name is that of another message).
create function dsec_send_message(
  executor text, lease text, lease_fence bigint, channel_name text, name text, judged_by text, text_ text, size integer,
  channels_max integer, messages_max integer, bytes_max integer,
  out outcome text, out channel_id bigint, out message bigint, out rule text, out waiting integer, out slowest text
)
language plpgsql set enable_seqscan = off set jit = off
as $$
declare
  open record;
  before record;
  its_digest text := encode(sha256(convert_to(text_, 'UTF8')), 'hex');
begin
  select o.task, o.channel into open
  from dsec_open_channel(executor, lease, lease_fence, channel_name, channels_max, messages_max) o;
  channel_id := (open.channel).id;
  outcome := case when open.task is null then 'lost' when channel_id is null then 'no_room' end;
  if outcome is not null then return; end if;
  select m.id, m.digest into before from channel_messages m
  where m.channel_id = (open.channel).id and m.sender = open.task and m.send_key = name;
  if found then
    message := before.id;
    outcome := case when before.digest = its_digest then 'sent' else 'reused' end;
    return;
  end if;
  if (open.channel).schema is distinct from judged_by then
    outcome := 'unjudged';
    rule := (open.channel).schema;
    return;
  end if;
  if (open.channel).messages >= (open.channel).capacity or (open.channel).bytes + size > bytes_max then
    outcome := 'full';
    waiting := (open.channel).messages;
    select r.task_id into slowest from channel_readers r
    where r.channel_id = (open.channel).id order by r.acknowledged, r.task_id limit 1;
    return;
  end if;
  outcome := 'sent';
  message := (open.channel).last_id + 1;
  insert into channel_messages (channel_id, id, sender, send_key, at, size_bytes, digest, body)
  values (channel_id, message, open.task, name, dsec_now(), size, its_digest, text_);
  update channels c set last_id = message, messages = c.messages + 1, bytes = c.bytes + size where c.id = (open.channel).id;
end
$$;

-- Makes the task a reader. outcome: joined, lost, no_room (for another channel), crowded.
create function dsec_read_channel(
  executor text, lease text, lease_fence bigint, channel_name text,
  channels_max integer, messages_max integer, readers_max integer
) returns text
language plpgsql set enable_seqscan = off set jit = off
as $$
declare
  open record;
begin
  select o.task, o.channel into open
  from dsec_open_channel(executor, lease, lease_fence, channel_name, channels_max, messages_max) o;
  return case when open.task is null then 'lost'
              when (open.channel).id is null then 'no_room'
              when dsec_join_channel(open.channel, open.task, readers_max) then 'joined'
              else 'crowded' end;
end
$$;

-- Gives a channel its rules. outcome: as for reading it.
create function dsec_declare_channel(
  executor text, lease text, lease_fence bigint, channel_name text, rule text, messages_max integer, reads boolean,
  channels_max integer, readers_max integer
) returns text
language plpgsql set enable_seqscan = off set jit = off
as $$
declare
  open record;
begin
  select o.task, o.channel into open
  from dsec_open_channel(executor, lease, lease_fence, channel_name, channels_max, messages_max) o;
  if open.task is null then return 'lost'; end if;
  if (open.channel).id is null then return 'no_room'; end if;
  if reads and not dsec_join_channel(open.channel, open.task, readers_max) then return 'crowded'; end if;
  update channels c set schema = rule, capacity = messages_max where c.id = (open.channel).id;
  return 'joined';
end
$$;

-- The task has dealt with everything up to \`through\`. outcome: acknowledged, refused (it may from \`place\` to \`last\`), or as
-- for reading the channel.
create function dsec_acknowledge_messages(
  executor text, lease text, lease_fence bigint, channel_name text, through bigint,
  channels_max integer, messages_max integer, readers_max integer, keys_kept integer,
  out outcome text, out place bigint, out last bigint
)
language plpgsql set enable_seqscan = off set jit = off
as $$
declare
  open record;
begin
  select o.task, o.channel into open
  from dsec_open_channel(executor, lease, lease_fence, channel_name, channels_max, messages_max) o;
  outcome := case when open.task is null then 'lost'
                  when (open.channel).id is null then 'no_room'
                  when not dsec_join_channel(open.channel, open.task, readers_max) then 'crowded' end;
  if outcome is not null then return; end if;
  select r.acknowledged into place from channel_readers r
  where r.channel_id = (open.channel).id and r.task_id = open.task;
  last := (open.channel).last_id;
  if through < place or through > last then
    outcome := 'refused';
    return;
  end if;
  outcome := 'acknowledged';
  update channel_readers r set acknowledged = through
  where r.channel_id = (open.channel).id and r.task_id = open.task and r.acknowledged < through;
  perform dsec_trim_channel(open.channel, keys_kept);
end
$$;

-- Whether a task of the job has not ended. The newest mostly end last, so that mostly one is looked at.
create function dsec_job_goes_on(owner text, its_job text) returns boolean
language plpgsql set enable_seqscan = off set enable_sort = off set jit = off
as $$
begin
  if left(its_job, 1) = ':' then
    return exists (select from tasks t where t.id = substr(its_job, 2) and t.state = 'queued');
  end if;
  return exists (
    select from (
      select t.state from tasks t where t.key_id = owner and t.job = its_job order by t.id desc
    ) t where t.state = 'queued'
  );
end
$$;

-- Removes the channels of jobs that have no unfinished task, and readers whose task has ended. Returns how many channels.
-- What is removed is locked first and looked at again by the next statement: whoever sends to a channel is unfinished and
-- was there before, and whoever comes later finds no channel and makes a new one.
create function dsec_sweep_channels(keys_kept integer) returns integer
language plpgsql set enable_seqscan = off set jit = off
as $$
declare
  ended record;
  gone record;
  channel channels;
  removed bigint[] := '{}';
begin
  for ended in
    select j.key_id, j.job from (select distinct c.key_id, c.job from channels c) j
    where not dsec_job_goes_on(j.key_id, j.job) order by 1, 2
  loop
    perform from channels c where c.key_id = ended.key_id and c.job = ended.job order by c.id for update;
    if dsec_job_goes_on(ended.key_id, ended.job) then continue; end if;
    with channel as (
      delete from channels c where c.key_id = ended.key_id and c.job = ended.job returning c.id
    )
    select removed || array_agg(c.id) into removed from channel c;
  end loop;
  delete from channel_messages m where m.channel_id = any (removed);
  delete from channel_readers r where r.channel_id = any (removed);
  for gone in
    select r.channel_id, r.task_id from channel_readers r join tasks t on t.id = r.task_id
    where t.state <> 'queued' order by 1, 2
  loop
    select c.* into channel from channels c where c.id = gone.channel_id for no key update;
    delete from channel_readers r where r.channel_id = gone.channel_id and r.task_id = gone.task_id;
    if channel.id is not null then perform dsec_trim_channel(channel, keys_kept); end if;
  end loop;
  return cardinality(removed);
end
$$;
`,
  },
  {
    name: "0006_grants_at_once",
    sql: `-- Stores one task and, where that is possible, grants it at once to an executor that waits for one: what a submission and a
-- claim would come to (dsec_acquire), without a place in the queue in between. It is possible while nobody waits in the
-- queue, so that whose turn it is needs no comparing; the executor's row is not locked, for whoever has it decides about
-- the same room just now; and the task fits in \`free\`, which the executor offers, and in what its capacity leaves.
-- Otherwise the task is queued.
--
-- The answer has no row where the key has used the idempotency key before; \`expires_at\` is null where the task was queued.
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
`,
  },
  {
    name: "0007_lock_then_read",
    sql: `-- A statement sees what was committed before it began, also where it has waited for a lock since (READ COMMITTED). What a
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

-- Appends a part of a trajectory where what is known of it ends; \`end_bytes\` is where that is. \`task\` is null where the
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

-- What waits for tasks that have ended.
update observations o set received_fence = 0 from tasks t
where t.id = o.task_id and t.state <> 'queued' and o.received_fence is null;
`,
  },
  {
    name: "0008_secrets_key",
    sql: `-- The key that the secrets of this database are sealed under, by its digest.
CREATE TABLE "secrets_key" (
	"only" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"digest" text NOT NULL,
	"claimed_at" timestamp with time zone NOT NULL,
	CONSTRAINT "secrets_key_only" CHECK ("secrets_key"."only")
);
`,
  },
  {
    name: "0009_channels_limit",
    sql: `-- Finds the channel of a lease's job, made where there is none, and locks it; null where the job has channels enough.
-- A new one is counted and made by whoever holds its key's lock, in statements that begin then: those who open different
-- channels at once would else pass the limit together.
create or replace function dsec_open_channel(
  executor text, lease text, lease_fence bigint, channel_name text, channels_max integer, messages_max integer,
  out task text, out channel channels
)
language plpgsql set enable_seqscan = off set jit = off
as $$
declare
  owner text;
  its_job text;
begin
  select t.id, t.key_id, coalesce(t.job, ':' || t.id) into task, owner, its_job
  from leases l join tasks t on t.id = l.task_id
  where l.id = lease and l.fence = lease_fence and l.executor_id = executor and l.expires_at > dsec_now()
  for key share of l;
  if task is null then return; end if;
  loop
    select c.* into channel from channels c
    where c.key_id = owner and c.job = its_job and c.name = channel_name for no key update;
    exit when channel.id is not null;
    perform from keys k where k.id = owner for no key update;
    if (select count(*) from channels c where c.key_id = owner and c.job = its_job) >= channels_max then
      -- Whoever held the lock before may have made this one.
      exit when not exists (
        select from channels c where c.key_id = owner and c.job = its_job and c.name = channel_name
      );
      continue;
    end if;
    insert into channels (key_id, job, name, capacity, last_id, gone_id, messages, bytes)
    values (owner, its_job, channel_name, messages_max, 0, 0, 0, 0) on conflict do nothing;
  end loop;
end
$$;
`,
  },
];
