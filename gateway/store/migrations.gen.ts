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
	"fence" bigint NOT NULL,
	"executor_id" text NOT NULL,
	"granted_at" timestamp with time zone NOT NULL
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
	"state" text NOT NULL,
	"spec" jsonb NOT NULL,
	"spec_digest" text NOT NULL,
	"labels" jsonb NOT NULL,
	"image_name" text,
	"resources" integer[] NOT NULL,
	"priority" smallint NOT NULL,
	"rank" bigint NOT NULL,
	"available_at" timestamp with time zone NOT NULL,
	"attempts" integer NOT NULL,
	"attempts_max" integer NOT NULL,
	"lease_id" text,
	"fence" bigint NOT NULL,
	"executor_id" text,
	"lease_expires_at" timestamp with time zone,
	"lease_end" text,
	"cancel_requested" boolean NOT NULL,
	"last_seq" integer NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"started_at" timestamp with time zone,
	"finished_at" timestamp with time zone,
	"result" jsonb,
	"attestation_id" text
);

CREATE TABLE "turns" (
	"priority" smallint PRIMARY KEY NOT NULL,
	"rank" bigint NOT NULL
);

CREATE INDEX "tasks_by_key" ON "tasks" USING btree ("key_id","id");
CREATE UNIQUE INDEX "tasks_idempotency" ON "tasks" USING btree ("key_id","idempotency_key") WHERE idempotency_key is not null;
CREATE INDEX "tasks_queue" ON "tasks" USING btree ("priority" desc,"rank","id") WHERE state = 'queued';
CREATE INDEX "tasks_held" ON "tasks" USING btree ("executor_id") WHERE state in ('leased', 'running');
CREATE INDEX "tasks_labels" ON "tasks" USING gin (labels jsonb_path_ops) WHERE labels <> '{}'::jsonb;`,
  },
  {
    name: "0001_claims",
    sql: `-- Ids are ASCII and compared on every index descent: byte order, whatever the database's locale.
alter table tasks alter column id type text collate "C", alter column key_id type text collate "C",
  alter column executor_id type text collate "C", alter column lease_id type text collate "C";
alter table leases alter column id type text collate "C", alter column task_id type text collate "C",
  alter column executor_id type text collate "C";
alter table task_events alter column task_id type text collate "C";
alter table attestations alter column task_id type text collate "C";
alter table artifacts alter column key_id type text collate "C", alter column digest type text collate "C";
alter table shares alter column key_id type text collate "C";
alter table executors alter column id type text collate "C";
alter table keys alter column id type text collate "C";

-- The clock of every decision about time. Tests replace this one function to move it.
create function dsec_now() returns timestamptz
language sql volatile parallel safe
as $$ select clock_timestamp() $$;

-- Virtual time starts at zero for each priority that core/limits.ts allows.
insert into turns (priority, rank) select p, 0 from generate_series(-100, 100) as p;

-- Claims tasks for many callers in one pass over the queue.
--
-- requests: [{"executor_id": text, "free": [amount on each axis], "max": integer}], where each is answered on its own:
--   what it gets fits its free vector in sum, and what its executor then holds fits the executor's capacity in sum,
--   so that an answer lost on the way cannot lead to an executor holding more than it has.
-- lease_ids: one for each lease that may be granted.
-- misses_max: how many tasks that pass the filter but fit nobody any more are looked at before giving up.
--
-- A cursor takes one row at a time, so that only tasks that are granted (and those few misses) are locked.
-- The planner's choice is pinned to the queue's index: fresh tables have no statistics, and a sort of the queue
-- for each claim is what queues on PostgreSQL die of. The costs of what is off would also call the JIT compiler in.
create function dsec_acquire(
  requests jsonb, lease_ids text[], ttl interval, lost_after interval, misses_max integer
) returns table (
  request integer, lease_id text, task_id text, fence bigint, attempt integer,
  expires_at timestamptz, spec jsonb, spec_digest text
)
language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
as $$
#variable_conflict use_column
declare
  axes constant integer := 7;
  at timestamptz;
  executor record;
  asked record;
  task record;
  room_ids text[] := '{}';    -- executors that may be given work
  rooms bigint[] := '{}';     -- what the capacity of executor e leaves on axis a, at (e - 1) * axes + a
  numbers integer[] := '{}';  -- ordinal of open request i in \`requests\`
  owners integer[] := '{}';   -- its executor, as an index of room_ids
  wanted integer[] := '{}';   -- leases it may still be given
  free bigint[] := '{}';      -- what it has left on axis a, at (i - 1) * axes + a
  images jsonb[] := '{}';     -- names of images it can run
  all_images text[] := '{}';
  most bigint[] := array_fill(-1::bigint, array[axes]);  -- the most any request could take on an axis
  still_wanted integer := 0;
  first_open integer := 1;
  misses integer := 0;
  chosen integer;
  owner integer;
  fits boolean;
  picked_tasks text[] := '{}';
  picked_requests integer[] := '{}';
  queue cursor for
    select t.id, t.resources, t.image_name from tasks t
    where t.state = 'queued' and t.available_at <= at
      and t.resources[1] <= most[1] and t.resources[2] <= most[2] and t.resources[3] <= most[3]
      and t.resources[4] <= most[4] and t.resources[5] <= most[5] and t.resources[6] <= most[6]
      and t.resources[7] <= most[7]
      and (t.image_name is null or t.image_name = any (all_images))
    order by t.priority desc, t.rank, t.id
    for update of t skip locked;
begin
  -- Locked in id order: calls for the same executor take turns, so that two cannot both see the same room.
  for executor in
    select x.id, x.capacity, x.images from executors x
    where x.id in (select r ->> 'executor_id' from jsonb_array_elements(requests) r)
      and not x.draining and x.last_seen_at > dsec_now() - lost_after
    order by x.id for update of x
  loop
    room_ids := room_ids || executor.id;
    rooms := rooms || (
      select array[
        executor.capacity[1] - coalesce(sum(t.resources[1]), 0), executor.capacity[2] - coalesce(sum(t.resources[2]), 0),
        executor.capacity[3] - coalesce(sum(t.resources[3]), 0), executor.capacity[4] - coalesce(sum(t.resources[4]), 0),
        executor.capacity[5] - coalesce(sum(t.resources[5]), 0), executor.capacity[6] - coalesce(sum(t.resources[6]), 0),
        executor.capacity[7] - coalesce(sum(t.resources[7]), 0)
      ] from tasks t where t.executor_id = executor.id and t.state in ('leased', 'running')
    );
    all_images := all_images || array(select jsonb_array_elements_text(executor.images));
  end loop;

  -- Only now: what was queued while this call waited for its turn may be taken too.
  at := dsec_now();
  for asked in
    select r.value ->> 'executor_id' as executor_id, (r.value ->> 'max')::integer as max, r.ordinality::integer as number,
           array(select f::bigint from jsonb_array_elements_text(r.value -> 'free') f) as free, x.images
    from jsonb_array_elements(requests) with ordinality r
    join executors x on x.id = r.value ->> 'executor_id'
  loop
    owner := array_position(room_ids, asked.executor_id);
    continue when owner is null or asked.max < 1;
    numbers := numbers || asked.number;
    owners := owners || owner;
    wanted := wanted || asked.max;
    free := free || asked.free;
    images := images || asked.images;
    still_wanted := still_wanted + asked.max;
    for a in 1 .. axes loop
      most[a] := greatest(most[a], least(asked.free[a], rooms[(owner - 1) * axes + a]));
    end loop;
  end loop;
  still_wanted := least(still_wanted, cardinality(lease_ids));

  if still_wanted > 0 then
    open queue;
    while still_wanted > 0 and misses < misses_max loop
      fetch queue into task;
      exit when not found;
      chosen := 0;
      for i in first_open .. cardinality(numbers) loop
        if wanted[i] = 0 then
          if i = first_open then first_open := i + 1; end if;
          continue;
        end if;
        continue when task.image_name is not null and not images[i] ? task.image_name;
        owner := owners[i];
        fits := true;
        for a in 1 .. axes loop
          if task.resources[a] > free[(i - 1) * axes + a] or task.resources[a] > rooms[(owner - 1) * axes + a] then
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
          free[(chosen - 1) * axes + a] := free[(chosen - 1) * axes + a] - task.resources[a];
          rooms[(owner - 1) * axes + a] := rooms[(owner - 1) * axes + a] - task.resources[a];
        end if;
      end loop;
      wanted[chosen] := wanted[chosen] - 1;
      still_wanted := still_wanted - 1;
      picked_tasks := picked_tasks || task.id;
      picked_requests := picked_requests || chosen;
    end loop;
    close queue;
  end if;

  return query
  with picked as (
    select p.task_id, p.request, l.lease_id, p.place
    from unnest(picked_tasks, picked_requests) with ordinality p (task_id, request, place)
    join unnest(lease_ids) with ordinality l (lease_id, place) using (place)
  ), granted as (
    update tasks t
    set state = 'leased', fence = t.fence + 1, attempts = t.attempts + 1, lease_id = p.lease_id,
        executor_id = room_ids[owners[p.request]], lease_expires_at = dsec_now() + ttl, lease_end = null,
        started_at = null, last_seq = t.last_seq + 1
    from picked p where t.id = p.task_id
    returning t.*, p.request, p.place
  ), kept as (
    insert into leases (id, task_id, fence, executor_id, granted_at)
    select g.lease_id, g.id, g.fence, g.executor_id, at from granted g
  ), logged as (
    insert into task_events (task_id, seq, at, type, fence, state)
    select g.id, g.last_seq, at, 'state', g.fence, 'leased' from granted g
  ), reached as (
    select g.priority, max(g.rank) as rank from granted g group by g.priority
  ), turned as (
    -- Whoever holds the row is bringing it up to date: virtual time need only be near, and claims must not queue for it.
    update turns u set rank = r.rank from reached r
    where u.priority = r.priority and u.rank < r.rank
      and u.priority in (select v.priority from turns v join reached using (priority) for update of v skip locked)
  )
  select numbers[g.request], g.lease_id, g.id, g.fence, g.attempts, g.lease_expires_at, g.spec, g.spec_digest
  from granted g order by g.place;
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
];
