CREATE TABLE "channel_messages" (
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
--> statement-breakpoint
CREATE TABLE "channel_readers" (
	"channel_id" bigint NOT NULL,
	"task_id" text NOT NULL,
	"acknowledged" bigint NOT NULL,
	CONSTRAINT "channel_readers_channel_id_task_id_pk" PRIMARY KEY("channel_id","task_id")
);
--> statement-breakpoint
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
--> statement-breakpoint
ALTER TABLE "tasks" ADD COLUMN "job" text;--> statement-breakpoint
CREATE UNIQUE INDEX "channel_messages_sent" ON "channel_messages" USING btree ("channel_id","sender","send_key");--> statement-breakpoint
CREATE UNIQUE INDEX "channels_of_job" ON "channels" USING btree ("key_id","job","name");--> statement-breakpoint
CREATE INDEX "tasks_by_job" ON "tasks" USING btree ("key_id","job","id") WHERE job is not null;--> statement-breakpoint
-- Ids are compared in byte order, as everywhere (0001).
alter table tasks alter column job type text collate "C";
alter table channels alter column key_id type text collate "C", alter column job type text collate "C",
  alter column name type text collate "C";
alter table channel_messages alter column sender type text collate "C", alter column send_key type text collate "C";
alter table channel_readers alter column task_id type text collate "C";
--> statement-breakpoint
update tasks set job = spec ->> 'job' where spec ->> 'job' is not null;
--> statement-breakpoint
-- The channel of this name in the job of the task whose lease is held, locked until the transaction ends; made where it is
-- not there. Which job that is, is the lease's to say: no other can be named. `task` is null where the lease is not held,
-- `channel.id` where the job has no room for one more channel.
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
--> statement-breakpoint
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
--> statement-breakpoint
-- Lets go of what every reader of a locked channel has acknowledged; without readers everything stays for the first one.
-- Of a message that is gone its name stays, so that it is known when it is sent again, until `keys_kept` more are gone.
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
--> statement-breakpoint
-- Appends a message that the caller has judged by the rule `judged_by` (null where it knows none).
-- outcome: sent (also where it was sent before), lost (the lease), no_room (for another channel), unjudged (`rule` is the
-- channel's now), full (with `waiting` messages), reused (the name is that of another message).
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
--> statement-breakpoint
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
--> statement-breakpoint
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
--> statement-breakpoint
-- The task has dealt with everything up to `through`. outcome: acknowledged, refused (it may from `place` to `last`), or as
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
--> statement-breakpoint
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
--> statement-breakpoint
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
