"""The store's side of the lease machine: two scripts, each one atomic step.

Gateways run them for every request; the control plane runs the second when it puts a budget to the
test, at a counter and among holders of its own.

A counter is a hash. `w` is its window, `g` what was granted in it to all processes, `l` what of
that may yet come back; `g:<holder>` and `l:<holder>` are one process's part. A process's word on
its part replaces what was there, so a repeated call, or one whose answer was lost, changes nothing.
`d:<holder>` tells that its process was taken for dead, and what it had reserved was freed; should
it speak again all the same, `late` counts what it had after all, `past` what of that went past the
amount. Of one that rolls, `b:<n>` is what was settled in its step `n`, `s` all of it, `n` the last
step it was looked at in; what leaves it is taken off `g` in the name of the holder `~`. `q` counts
the questions that were put to holders, `a:<holder>` is the last one it answered, `t` when the last
was put. Numbers of units are decimal text and go up to 2**63 - 1; corrections of what was spent may
bring a counter below 0.

Processes are heard once a second. The clock that judges them runs no faster than `STEP` a call, so
a store that stood still takes nobody for dead.
"""

# KEYS: the epoch. ARGV: the run of the store.
# Returns the epoch and for how many milliseconds it has been.
ENTER = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local epoch = redis.call('GET', KEYS[1])
if not epoch or string.sub(epoch, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then
    epoch = ARGV[1] .. ':' .. string.format('%.0f', now)
    redis.call('SET', KEYS[1], epoch)
end
return {epoch, now - tonumber(string.match(epoch, ':(%d+)$'))}
"""

# KEYS: holders, then counters.
# ARGV: holder, its call's number, milliseconds after which a silent one is dead, channel, whether
# this is a beat. Of each counter: length of the window in milliseconds (0: units are held until
# they are given back; below: minus the time at which a budget's period ends, of which a dead
# process's spending stays and its reservations come back; `~<step>:<steps>`: the same of one that
# rolls), amount, window the holder speaks of ("":
# it knows of none), what it was
# granted there, what of that may come back, what it booked since without knowing the window, how
# many units it wants ahead, the question it answers. Then the number of requests, and of each: how
# many lines; and of a line: counter, units that must be left, units to take, whether they may come
# back, the question that was waited for.
# Returns of each counter: window, milliseconds left of it, units given ahead, units left, units
# that may come back from others, last question, units granted to this holder, units it told after
# they had been freed, what of these went past the amount. And of each request:
# {} if all was taken, or pairs of a counter that is short and the question to wait for, 0 if in
# vain. Returns {} if a later call of this holder was here before.
LEASE = """
local STEP, LIFE, SHARE, QUIET, FORGET, KEPT = 1500, 3600000, 2, 1000, 60000, 259200000
local holders, me, seq = KEYS[1], ARGV[1], tonumber(ARGV[2])
local dead_ms, channel = tonumber(ARGV[3]), ARGV[4]

local function whole(number) return string.format('%.0f', number) end
local function minus(text)
    if text == '0' then return text end
    return string.sub(text, 1, 1) == '-' and string.sub(text, 2) or '-' .. text
end
local function halves(text)
    if #text <= 9 then return 0, tonumber(text) end
    local sign, digits = string.match(text, '^(-?)(%d+)$')
    local one = sign == '-' and -1 or 1
    return one * (tonumber(string.sub(digits, 1, -10)) or 0), one * tonumber(string.sub(digits, -9))
end
local function fits(granted, floor, amount)
    local g, gl = halves(granted)
    local f, fl = halves(floor)
    local a, al = halves(amount)
    -- the sign is right: where a double is not exact any more, it is far from 0
    return (g + f - a) * 1000000000 + (gl + fl - al) <= 0
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HMGET', holders, 'at', 'clock', me)
local passed = now - (tonumber(known[1] or now) or now)
local clock = tonumber(known[2] or 0) + math.min(math.max(passed, 0), STEP)
if known[3] and seq <= tonumber(string.match(known[3], ':(%d+)$')) then return {} end
redis.call('HSET', holders, 'at', whole(now), 'clock', whole(clock), me, whole(clock) .. ':' .. seq)
redis.call('PEXPIRE', holders, LIFE)

local function age(beat) return clock - tonumber(string.match(beat, '^%d+')) end
if ARGV[5] == '1' then
    local all = redis.call('HGETALL', holders)
    for i = 1, #all, 2 do
        local is_holder = all[i] ~= 'at' and all[i] ~= 'clock'
        if is_holder and age(all[i + 1]) > FORGET then redis.call('HDEL', holders, all[i]) end
    end
end
local crowd = redis.call('HLEN', holders) - 2

local function tell(key, total, own, value)
    local before = redis.call('HGET', key, own) or '0'
    if before == value then return end
    redis.call('HINCRBY', key, total, value)
    redis.call('HINCRBY', key, total, minus(before))
    redis.call('HSET', key, own, value)
end
local function grant(c, units, may_return)
    redis.call('HINCRBY', c.key, 'g', units)
    redis.call('HINCRBY', c.key, 'g:' .. me, units)
    if may_return then
        redis.call('HINCRBY', c.key, 'l', units)
        redis.call('HINCRBY', c.key, 'l:' .. me, units)
    end
    c.granted = redis.call('HGET', c.key, 'g')
end

local function come_late(c, got, before)
    local granted = tonumber(redis.call('HGET', c.key, 'g') or '0')
    c.late = math.max(tonumber(got) - tonumber(before), 0)
    c.past = math.max(math.min(granted - tonumber(c.amount), c.late), 0)
    redis.call('HINCRBY', c.key, 'late', whole(c.late))
    redis.call('HINCRBY', c.key, 'past', whole(c.past))
end

local function roll(c)
    local key, n = c.key, math.floor(now / c.step)
    local bucket = 'b:' .. whole(n)
    local known = redis.call('HMGET', key, 'l', 's', 'n')
    redis.call('HSET', key, 's', redis.call('HGET', key, 'g') or '0')
    redis.call('HINCRBY', key, 's', minus(known[1] or '0'))
    local settled = redis.call('HGET', key, 's')
    if settled ~= (known[2] or '0') then
        redis.call('HINCRBY', key, bucket, settled)
        redis.call('HINCRBY', key, bucket, minus(known[2] or '0'))
    end
    if known[3] == whole(n) then return end
    redis.call('HSET', key, 'n', whole(n))
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
        local past = tonumber(string.match(fields[i], '^b:(%d+)$'))
        if past and past < n - c.steps then
            local gone = minus(fields[i + 1])
            redis.call('HINCRBY', key, 'g', gone)
            redis.call('HINCRBY', key, 'g:~', gone)
            redis.call('HINCRBY', key, 's', gone)
            redis.call('HDEL', key, fields[i])
        end
    end
    c.granted = redis.call('HGET', key, 'g') or '0'
end

local at, counters = 6, {}
for i = 2, #KEYS do
    local key = KEYS[i]
    local c = {key = key, window = tonumber(ARGV[at]), amount = ARGV[at + 1], ends = 0, w = '0',
        late = 0, past = 0}
    if not c.window then
        local step, steps = string.match(ARGV[at], '^~(%d+):(%d+)$')
        c.step, c.steps = tonumber(step), tonumber(steps)
        c.window = -(now + (c.steps + 2) * c.step)
    end
    local stored = redis.call('HGET', key, 'w')
    if c.window > 0 then
        local w = math.floor(now / c.window)
        if stored and tonumber(stored) == w + 1 then w = w + 1 end
        c.w, c.ends = whole(w), (w + 1) * c.window - now
    elseif c.window < 0 then
        c.w, c.ends = '1', -c.window - now
    end
    if stored ~= c.w then
        redis.call('DEL', key)
        redis.call('HSET', key, 'w', c.w)
    end
    local life = c.window > 0 and c.ends + 1000 or LIFE
    if c.window < 0 then life = math.max(c.ends, 0) + KEPT end
    redis.call('PEXPIRE', key, whole(life))
    local spoken, got, back = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    local late, answer = ARGV[at + 5], ARGV[at + 7]
    if spoken == c.w then
        local before = redis.call('HGET', key, 'g:' .. me) or '0'
        tell(key, 'g', 'g:' .. me, got)
        tell(key, 'l', 'l:' .. me, back)
        local is_late = c.window < 0 and redis.call('HDEL', key, 'd:' .. me) == 1
        if is_late then come_late(c, got, before) end
    else
        if spoken ~= '' then tell(key, 'g', 'g:' .. me, '0') end
        tell(key, 'l', 'l:' .. me, '0')
    end
    c.granted = redis.call('HGET', key, 'g') or '0'
    if late ~= '0' then grant(c, late, false) end
    if c.step then roll(c) end
    if answer ~= '0' and spoken == c.w then
        redis.call('HSET', key, 'a:' .. me, answer)
        redis.call('PUBLISH', channel, '!' .. key)
    end
    c.want = tonumber(ARGV[at + 6])
    counters[i - 1] = c
    at = at + 8
end

local function others_of(c)
    if c.others then return c.others end
    c.others = {}
    local parts, fields = {}, redis.call('HGETALL', c.key)
    for i = 1, #fields, 2 do
        local kind, name = string.match(fields[i], '^([gla]):(.+)$')
        if kind and name ~= me then
            parts[name] = parts[name] or {g = '0', l = '0', a = '0'}
            parts[name][kind] = fields[i + 1]
        end
    end
    for name, part in pairs(parts) do
        local beat = redis.call('HGET', holders, name)
        if not beat or age(beat) > dead_ms then
            redis.call('HINCRBY', c.key, 'l', minus(part.l))
            redis.call('HDEL', c.key, 'l:' .. name, 'a:' .. name)
            if c.window == 0 then
                redis.call('HINCRBY', c.key, 'g', minus(part.g))
                redis.call('HDEL', c.key, 'g:' .. name)
            elseif c.window < 0 and part.l ~= '0' then
                redis.call('HINCRBY', c.key, 'g', minus(part.l))
                redis.call('HINCRBY', c.key, 'g:' .. name, minus(part.l))
                redis.call('HSET', c.key, 'd:' .. name, '1')
            end
        elseif part.l ~= '0' then
            c.others[#c.others + 1] = tonumber(part.a)
        end
    end
    c.granted = redis.call('HGET', c.key, 'g') or '0'
    return c.others
end
local function question(c)
    if not c.asked then
        c.asked = redis.call('HINCRBY', c.key, 'q', 1)
        redis.call('HSET', c.key, 't', whole(now))
        redis.call('PUBLISH', channel, '?' .. c.asked .. ' ' .. c.key)
    end
    return c.asked
end
local function waits_for(c, asked)
    local others = others_of(c)
    if asked == 0 then return #others > 0 and question(c) or 0 end
    for _, answered in ipairs(others) do
        if answered < asked then return asked end
    end
    return 0
end

local results, count = {}, tonumber(ARGV[at])
at = at + 1
for r = 1, count do
    local first, lines, short = at + 1, tonumber(ARGV[at]), {}
    at = first + 5 * lines
    for line = first, at - 1, 5 do
        local c = counters[tonumber(ARGV[line])]
        if not fits(c.granted, ARGV[line + 1], c.amount) then
            others_of(c)
            if not fits(c.granted, ARGV[line + 1], c.amount) then
                short[#short + 1] = tonumber(ARGV[line])
                short[#short + 1] = waits_for(c, tonumber(ARGV[line + 4]))
            end
        end
    end
    if #short == 0 then
        for line = first, at - 1, 5 do
            local take = ARGV[line + 2]
            if take ~= '0' then
                grant(counters[tonumber(ARGV[line])], take, ARGV[line + 3] == '1')
            end
        end
    end
    results[r] = short
end

local replies = {}
for i, c in ipairs(counters) do
    local told = redis.call('HMGET', c.key, 'l', 'l:' .. me, 'q', 't')
    local slice = 0
    if c.want > 0 and now - tonumber(told[4] or 0) >= QUIET then
        local rest = tonumber(c.amount) - tonumber(c.granted)
        slice = math.max(math.min(c.want, math.floor(rest / (SHARE * crowd))), 0)
        if slice > 0 then grant(c, whole(slice), true) end
    end
    local back = tonumber(told[1] or 0) - tonumber(told[2] or 0)
    local rest = whole(tonumber(c.amount) - tonumber(c.granted))
    local mine = redis.call('HGET', c.key, 'g:' .. me) or '0'
    replies[i] = {c.w, c.ends, whole(slice), rest, whole(back), tonumber(told[3] or 0), mine,
        whole(c.late), whole(c.past)}
    if c.window == 0 and c.granted == '0' and not told[3] then redis.call('DEL', c.key) end
end
return {replies, results}
"""
