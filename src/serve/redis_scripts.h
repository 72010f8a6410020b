#pragma once

namespace lathe::serve {

// The queue's operations, each atomic. Keys, all below "lathe:":
//   epoch            a random text, new where the server has forgotten everything
//   fresh            there for a lease after the epoch has begun: not everybody may have beaten yet
//   fronts           front end -> its beats and its gym's version
//   registered       front end -> the beat with which it came to be among them
//   items            evaluation -> its line, its entry there and when it was asked for
//   again            evaluation -> what to add once the present item is over
//   streams          lines that there are; a line is KIND 0x1f CLIENT 0x1f PRIORITY
//   line:LINE        a stream of the line's items, with the group "fronts"
//   lines:KIND       lines with items that nobody was given, by the first one's rank: when it was asked for,
//   less
//                    30 s for each step of priority
//   used:KIND        client -> seconds that it has used, and under "" those of the one served last
//   done             a stream of what is over
// Entries that are over are deleted, so a stream's length is what waits and what is held.

inline constexpr const char* kRedisFunctions = R"lua(
local function stream_of(line) return 'lathe:line:' .. line end
local function parts(line) return string.match(line, '^(.-)\31(.-)\31(.*)$') end
local function split(value) return string.match(value, '^(.*)\n(.-)\n(.-)$') end

local function add(id, kind, client, priority, since, class)
  local line = kind .. '\31' .. client .. '\31' .. class
  local stream = stream_of(line)
  if redis.call('SADD', 'lathe:streams', line) == 1 then
    redis.call('XGROUP', 'CREATE', stream, 'fronts', '0', 'MKSTREAM')
  end
  local entry = redis.call('XADD', stream, '*', 'id', id, 'since', since, 'priority', priority)
  redis.call('HSET', 'lathe:items', id, line .. '\n' .. entry .. '\n' .. since)
  local rank = class == 'again' and 0 or tonumber(since) - 30000 * tonumber(priority)
  if redis.call('ZADD', 'lathe:lines:' .. kind, 'NX', string.format('%.0f', rank), line) == 1 then
    local used = tonumber(redis.call('HGET', 'lathe:used:' .. kind, client) or '0')
    local now = tonumber(redis.call('HGET', 'lathe:used:' .. kind, '') or '0')
    if used < now then redis.call('HSET', 'lathe:used:' .. kind, client, tostring(now)) end
  end
end

-- Takes an entry out; gives its fields.
local function take_out(line, entry)
  local stream = stream_of(line)
  local found = redis.call('XRANGE', stream, entry, entry)
  redis.call('XACK', stream, 'fronts', entry)
  redis.call('XDEL', stream, entry)
  if redis.call('XLEN', stream) == 0 then
    redis.call('DEL', stream)
    redis.call('SREM', 'lathe:streams', line)
    redis.call('ZREM', 'lathe:lines:' .. parts(line), line)
  end
  return found[1] and found[1][2]
end
)lua";

/// ARGV: id, kind, client, priority, since; again and again.
inline constexpr const char* kRedisAdd = R"lua(
for i = 1, #ARGV, 5 do
  local known = redis.call('HGET', 'lathe:items', ARGV[i])
  if not known then
    add(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 3])
  else
    local _, _, since = split(known)
    if since ~= ARGV[i + 4] then
      redis.call('HSET', 'lathe:again', ARGV[i], table.concat({ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]}, '\31'))
    end
  end
end
return #ARGV / 5)lua";

/// ARGV: front end; then id, gone (0, 1 or "if held"), clients, seconds beyond those charged; again
/// and again.
inline constexpr const char* kRedisOver = R"lua(
local function is_held(id)
  local value = redis.call('HGET', 'lathe:items', id)
  if not value then return false end
  local line, entry = split(value)
  local stream = stream_of(line)
  return redis.call('EXISTS', stream) == 1 and
    #redis.call('XPENDING', stream, 'fronts', entry, entry, 1, ARGV[1]) == 1
end

for i = 2, #ARGV, 4 do
  local gone = ARGV[i + 1]
  if gone == 'if held' then gone = is_held(ARGV[i]) and '1' or '0' end
  local value = gone == '1' and redis.call('HGET', 'lathe:items', ARGV[i])
  if value then
    local line, entry = split(value)
    local kind, client = parts(line)
    redis.call('HDEL', 'lathe:items', ARGV[i])
    take_out(line, entry)
    redis.call('HINCRBYFLOAT', 'lathe:used:' .. kind, client, ARGV[i + 3])
    local again = redis.call('HGET', 'lathe:again', ARGV[i])
    if again then
      redis.call('HDEL', 'lathe:again', ARGV[i])
      local next_kind, next_client, priority, since = string.match(again, '^(.-)\31(.-)\31(.-)\31(.*)$')
      add(ARGV[i], next_kind, next_client, priority, since, priority)
    end
  end
  redis.call('XADD', 'lathe:done', 'MAXLEN', '~', '100000', '*', 'id', ARGV[i], 'gone', gone, 'clients',
    ARGV[i + 2], 'front', ARGV[1])
end
return 0)lua";

/// ARGV: ids.
inline constexpr const char* kRedisReturn = R"lua(
for i = 1, #ARGV do
  local value = redis.call('HGET', 'lathe:items', ARGV[i])
  if value then
    local line, entry = split(value)
    local kind, client = parts(line)
    local fields = take_out(line, entry)
    if fields then add(ARGV[i], kind, client, fields[6], fields[4], 'again') end
  end
end
return 0)lua";

/// ARGV: front end. Gives whether this call took what it held.
inline constexpr const char* kRedisTakeOver = R"lua(
redis.call('HDEL', 'lathe:registered', ARGV[1])
if redis.call('HDEL', 'lathe:fronts', ARGV[1]) == 0 then return 0 end
for _, line in ipairs(redis.call('SMEMBERS', 'lathe:streams')) do
  local kind, client = parts(line)
  repeat
    local held = redis.call('XPENDING', stream_of(line), 'fronts', '-', '+', '1000', ARGV[1])
    for _, one in ipairs(held) do
      local fields = take_out(line, one[1])
      if fields then add(fields[2], kind, client, fields[6], fields[4], 'again') end
    end
    local more = redis.call('EXISTS', stream_of(line)) == 1
  until #held == 0 or not more
  if redis.call('EXISTS', stream_of(line)) == 1 then
    redis.call('XGROUP', 'DELCONSUMER', stream_of(line), 'fronts', ARGV[1])
  end
end
return 1)lua";

/// ARGV: front end, kind, items wanted now, items wanted ahead, seconds that one costs. Gives ids.
inline constexpr const char* kRedisTake = R"lua(
local waiting_key, used_key = 'lathe:lines:' .. ARGV[2], 'lathe:used:' .. ARGV[2]
local flat = redis.call('ZRANGE', waiting_key, 0, -1, 'WITHSCORES')
if #flat == 0 then return {} end
local want, ahead, cost = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if ahead > 0 then
  -- Of what others may need, a share alone.
  local waiting = 0
  for i = 1, math.min(#flat, 32), 2 do
    local stream = stream_of(flat[i])
    waiting = waiting + redis.call('XLEN', stream) - redis.call('XPENDING', stream, 'fronts')[1]
  end
  local fronts = math.max(1, redis.call('HLEN', 'lathe:fronts'))
  want = want + math.max(0, math.min(ahead, math.floor((waiting - want) / (fronts == 1 and 1 or 2 * fronts))))
end
local clients, count = {}, 0
for i = 1, #flat, 2 do
  local _, client = parts(flat[i])
  if not clients[client] then
    count = count + 1
    clients[client] = {lines = {}, used = tonumber(redis.call('HGET', used_key, client) or '0'), before = 0}
  end
  table.insert(clients[client].lines, {name = flat[i], rank = tonumber(flat[i + 1])})
end
for _, client in pairs(clients) do client.before = client.used end
local ids, now = {}, nil
while #ids < want and count > 0 do
  local name, next_client = nil, nil
  for key, client in pairs(clients) do
    if not next_client or client.used < next_client.used then name, next_client = key, client end
  end
  local at = 1
  for i, line in ipairs(next_client.lines) do
    if line.rank < next_client.lines[at].rank then at = i end
  end
  local line = next_client.lines[at]
  local stream = stream_of(line.name)
  local most = count == 1 and #next_client.lines == 1 and want - #ids or 1
  local read = redis.call('XREADGROUP', 'GROUP', 'fronts', ARGV[1], 'COUNT', most, 'STREAMS', stream, '>')
  local last = nil
  now = next_client.used
  if read then
    for _, entry in ipairs(read[1][2]) do
      table.insert(ids, entry[2][2])
      next_client.used = next_client.used + cost
      last = entry[1]
    end
  end
  local following = last and redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1)[1]
  if following then
    local class = string.match(line.name, '\31([^\31]*)$')
    line.rank = class == 'again' and 0 or tonumber(following[2][4]) - 30000 * tonumber(following[2][6])
    redis.call('ZADD', waiting_key, string.format('%.0f', line.rank), line.name)
  else
    redis.call('ZREM', waiting_key, line.name)
    table.remove(next_client.lines, at)
    if #next_client.lines == 0 then
      if next_client.used ~= next_client.before then
        redis.call('HSET', used_key, name, tostring(next_client.used))
      end
      clients[name] = nil
      count = count - 1
    end
  end
end
for name, client in pairs(clients) do
  if client.used ~= client.before then redis.call('HSET', used_key, name, tostring(client.used)) end
end
if now and now > tonumber(redis.call('HGET', used_key, '') or '0') then
  redis.call('HSET', used_key, '', tostring(now))
end
return ids)lua";

/// ARGV: front end, its beat, its gym's version, an epoch for a new server, milliseconds of a
/// lease. Gives the epoch, the beat with which this front end was registered, the newest entry of
/// "done", all front ends with their beats, and for how many milliseconds the server is fresh.
/// Another beat of registration than before tells that the front end was taken for gone, also where
/// the first reply that said so was lost.
inline constexpr const char* kRedisBeat = R"lua(
if redis.call('SET', 'lathe:epoch', ARGV[4], 'NX') then redis.call('SET', 'lathe:fresh', '', 'PX', ARGV[5]) end
if redis.call('HEXISTS', 'lathe:fronts', ARGV[1]) == 0 then
  redis.call('HSET', 'lathe:registered', ARGV[1], ARGV[2])
end
redis.call('HSET', 'lathe:fronts', ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
local newest = redis.call('XREVRANGE', 'lathe:done', '+', '-', 'COUNT', 1)[1]
return {redis.call('GET', 'lathe:epoch'), redis.call('HGET', 'lathe:registered', ARGV[1]) or '',
  newest and newest[1] or '0-0', redis.call('HGETALL', 'lathe:fronts'), redis.call('PTTL', 'lathe:fresh')})lua";

/// ARGV: front end. Gives the ids of what it holds.
inline constexpr const char* kRedisHeld = R"lua(
local ids = {}
for _, line in ipairs(redis.call('SMEMBERS', 'lathe:streams')) do
  for _, one in ipairs(redis.call('XPENDING', stream_of(line), 'fronts', '-', '+', '10000', ARGV[1])) do
    local found = redis.call('XRANGE', stream_of(line), one[1], one[1])[1]
    if found then table.insert(ids, found[2][2]) end
  end
end
return ids)lua";

/// Gives line, length, held, rank; again and again.
inline constexpr const char* kRedisCounts = R"lua(
local counts = {}
for _, line in ipairs(redis.call('SMEMBERS', 'lathe:streams')) do
  table.insert(counts, line)
  table.insert(counts, redis.call('XLEN', stream_of(line)))
  table.insert(counts, redis.call('XPENDING', stream_of(line), 'fronts')[1])
  table.insert(counts, redis.call('ZSCORE', 'lathe:lines:' .. parts(line), line) or '0')
end
return counts)lua";

}  // namespace lathe::serve
