/**
 * What happens inside Redis, each script as one atomic step. A namespace is four keys, so that no operation has to find
 * its keys by a pattern:
 *
 * - KEYS[1] a hash from key to record, `version:expiry:` (expiry empty, or milliseconds) and the value's text;
 * - KEYS[2] a sorted set of the keys with equal scores, which Redis keeps in byte order, for listing by prefix;
 * - KEYS[3] a sorted set of the keys that expire, by the time at which they do;
 * - KEYS[4] a hash of the counters `version`, `keys` and `bytes`.
 *
 * The database's clock decides what has expired, because executors share the namespaces and their clocks differ.
 * ARGV[1] is empty, or the time that tests want. Each script answers `{version, expired, result...}`, `expired` being
 * a flat list of key, record and version since.
 */
import { defineScript } from "redis";

const PRELUDE = `
local records, order, expiry, counters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local at = tonumber(ARGV[1])
if not at then
  local time = redis.call('TIME')
  at = time[1] * 1000 + math.floor(time[2] / 1000)
end

local function integer(number) return string.format('%.0f', number) end
local function counter(name) return tonumber(redis.call('HGET', counters, name) or '0') end
local function parse(record) return string.match(record, '^(%d+):(%d*):(.*)$') end

local function find(key)
  local record = redis.call('HGET', records, key)
  if not record then return nil end
  local version, _, text = parse(record)
  return { record = record, version = version, bytes = #key + #text }
end

local function remove(key, entry)
  redis.call('HDEL', records, key)
  redis.call('ZREM', order, key)
  redis.call('ZREM', expiry, key)
  redis.call('HINCRBY', counters, 'keys', -1)
  redis.call('HINCRBY', counters, 'bytes', -entry.bytes)
  return redis.call('HINCRBY', counters, 'version', 1)
end

local expired = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', expiry, '-inf', integer(at))) do
  local entry = find(key)
  local version = remove(key, entry)
  expired[#expired + 1] = key
  expired[#expired + 1] = entry.record
  expired[#expired + 1] = integer(version)
end

local function answer(...)
  return { redis.call('HGET', counters, 'version') or '0', expired, ... }
end

local function holds(expect, entry)
  if expect == 'anything' then return true end
  if expect == 'absent' then return entry == nil end
  if expect == 'present' then return entry ~= nil end
  return entry ~= nil and entry.version == expect
end
`;

/** ARGV: time, key. Answers the record. */
const GET = `${PRELUDE}
return answer(redis.call('HGET', records, ARGV[2]))`;

/** ARGV: time, key, text, expectation, lifetime in ms, `keep` or empty, most keys, most bytes. Answers a state and what goes with it. */
const PUT = `${PRELUDE}
local key, text, expect, ttl = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local old = find(key)
if not holds(expect, old) then return answer('conflict', old and old.version or '') end
local keys_added = old and 0 or 1
local bytes_added = #key + #text - (old and old.bytes or 0)
if keys_added > 0 and counter('keys') + keys_added > tonumber(ARGV[6]) then return answer('full', 'keys') end
if bytes_added > 0 and counter('bytes') + bytes_added > tonumber(ARGV[7]) then return answer('full', 'bytes') end
local version = integer(redis.call('HINCRBY', counters, 'version', 1))
local expires = ''
if ttl == 'keep' then
  if old then expires = select(2, parse(old.record)) end
elseif ttl ~= '' then
  expires = integer(at + tonumber(ttl))
  redis.call('ZADD', expiry, expires, key)
elseif old then
  redis.call('ZREM', expiry, key)
end
redis.call('HSET', records, key, version .. ':' .. expires .. ':' .. text)
if not old then
  redis.call('ZADD', order, 0, key)
  redis.call('HINCRBY', counters, 'keys', 1)
end
redis.call('HINCRBY', counters, 'bytes', bytes_added)
return answer('stored', old and old.record or '', expires)`;

/** ARGV: time, key, expectation. */
const DELETE = `${PRELUDE}
local key = ARGV[2]
local old = find(key)
if not holds(ARGV[3], old) then return answer('conflict', old and old.version or '') end
if not old then return answer('absent') end
remove(key, old)
return answer('deleted', old.record)`;

/**
 * ARGV: time, prefix, key to begin after or empty, most entries, most bytes. Answers whether more follow, and a flat
 * list of keys and records. The range ends below prefix and byte 255, which UTF-8 has nowhere, so that no character of
 * the prefix has a meaning.
 */
const LIST = `${PRELUDE}
local prefix, after, limit, most = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local from = after == '' and '[' .. prefix or '(' .. after
local keys = redis.call('ZRANGEBYLEX', order, from, '(' .. prefix .. '\\255', 'LIMIT', 0, limit + 1)
local found, bytes = {}, 0
for i, key in ipairs(keys) do
  local record = redis.call('HGET', records, key)
  local _, _, text = parse(record)
  bytes = bytes + #text
  if i > limit or (i > 1 and bytes > most) then return answer('more', found) end
  found[#found + 1] = key
  found[#found + 1] = record
end
return answer('end', found)`;

/** ARGV: time. Unlinks: the memory is freed outside the main thread, so that no other namespace waits. */
const CLEAR = `${PRELUDE}
local keys, bytes = counter('keys'), counter('bytes')
redis.call('UNLINK', records, order, expiry)
redis.call('HSET', counters, 'keys', 0, 'bytes', 0)
redis.call('HINCRBY', counters, 'version', 1)
return answer(integer(keys), integer(bytes))`;

/** ARGV: time. */
const STAT = `${PRELUDE}
return answer(integer(counter('keys')), integer(counter('bytes')))`;

/** ARGV: time. Answers a flat list of keys and records. */
const DUMP = `${PRELUDE}
return answer(redis.call('HGETALL', records))`;

function script(source: string) {
  return defineScript({
    SCRIPT: source,
    NUMBER_OF_KEYS: 4,
    parseCommand(parser, keys: readonly string[], values: readonly string[]) {
      for (const key of keys) parser.pushKey(key);
      parser.push(...values);
    },
    transformReply: (reply: unknown) => reply as ScriptReply,
  });
}

/** Namespace version, what expired, and the script's own answer. */
export type ScriptReply = [version: string, expired: string[], ...result: unknown[]];

export const REDIS_SCRIPTS = {
  memoryGet: script(GET),
  memoryPut: script(PUT),
  memoryDelete: script(DELETE),
  memoryList: script(LIST),
  memoryClear: script(CLEAR),
  memoryStat: script(STAT),
  memoryDump: script(DUMP),
};
