-- Sends one prepared request over and over, with what must differ each time put in.
--
--   wrk -s wrk.lua https://127.0.0.1:6443 -- FILE SLOTS
--
-- FILE holds the whole request. Eight # in it become the request's serial number, eight @ that number modulo SLOTS;
-- eight digits each, so that the length of a body never changes.

local STAND_INS = {"########", "@@@@@@@@"}
local pieces, kinds = {}, {}
local serial, slots = 0, 1

-- The place and the kind of the first stand-in at or after `from`.
local function find(text, from)
  local place, kind
  for i, stand_in in ipairs(STAND_INS) do
    local at = text:find(stand_in, from, true)
    if at and (not place or at < place) then place, kind = at, i end
  end
  return place, kind
end

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  local text = file:read("*a")
  file:close()
  slots = tonumber(arguments[2])
  local from = 1
  while true do
    local at, kind = find(text, from)
    if not at then break end
    pieces[#pieces + 1] = text:sub(from, at - 1)
    kinds[#kinds + 1] = kind
    from = at + 8
  end
  pieces[#pieces + 1] = text:sub(from)
end

function request()
  if #kinds == 0 then return pieces[1] end
  local digits = {string.format("%08d", serial), string.format("%08d", serial % slots)}
  serial = serial + 1
  local parts = {}
  for i, kind in ipairs(kinds) do
    parts[2 * i - 1] = pieces[i]
    parts[2 * i] = digits[kind]
  end
  parts[#parts + 1] = pieces[#pieces]
  return table.concat(parts)
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"seconds":%f,"bytes":%d,"refused":%d,"broken":%d,"p50":%f,"p99":%f}\n',
    summary.requests, summary.duration / 1e6, summary.bytes, e.status, e.connect + e.read + e.write + e.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3
  ))
end
