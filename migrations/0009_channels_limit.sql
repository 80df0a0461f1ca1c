-- Finds the channel of a lease's job, made where there is none, and locks it; null where the job has channels enough.
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
