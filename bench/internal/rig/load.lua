-- The script of every load: plan.N has what thread N sends, a request a line. Each answer is awaited before the thread ends, so
-- that what was sent and what was counted can be compared exactly.
local ffi = require("ffi")
ffi.cdef [[ typedef struct { long sec, usec; } timeval_t; int gettimeofday(timeval_t *, void *); ]]
local tv = ffi.new("timeval_t")
local function now() ffi.C.gettimeofday(tv, nil); return tonumber(tv.sec) + tonumber(tv.usec) / 1e6 end

local threads = 0
local all = {}

function setup(thread)
	thread:set("index", threads)
	threads = threads + 1
	all[threads] = thread
end

function init(args)
	folder, expected, burst, first, step = args[1], args[2], tonumber(args[3]), tonumber(args[4]), tonumber(args[5])
	status, number = tonumber(args[6]), first + index
	plan = assert(io.open(folder .. "/plan." .. index))
	sent, answered, right, wrong, bytes, sample, began, ended, over = 0, 0, 0, 0, 0, "", 0, 0, false
	queue, taken = {}, 0
end

-- finish reports to the bench once that all requests of this thread have answers.
function finish(all_sent)
	over = over or all_sent
	if over and answered == taken and not reported then
		reported = true
		io.stdout:write("finished\n")
		io.stdout:flush()
	end
end

-- delay takes the next request, or holds the connection back for good once that nothing is left to send.
function delay()
	local line = nil
	if not over then line = plan:read() end
	if line == nil and not over and burst > 0 then
		plan:seek("set")
		line = plan:read()
	end
	if line == nil then
		finish(true)
		return 3600000
	end
	taken = taken + 1
	queue[taken] = line
	if burst > 0 and began > 0 and now() - began > burst then over = true end
	return 0
end

function request()
	if index == 0 and not verified then -- wrk parses one request before it begins
		verified = true
		return wrk.format("GET", "/")
	end
	sent = sent + 1
	if sent == 1 then began = now() end
	local line = queue[sent] or "?/" -- there is one, unless a connection broke
	queue[sent] = nil
	local at = line:find("NNNNNNNNNNNN", 1, true)
	if at then
		line = line:gsub("NNNNNNNNNNNN", string.format("%012d", number))
		number = number + step
	end
	local first_letter = line:byte(1)
	if first_letter == 123 then -- a brace: a document of GraphQL
		return wrk.format("POST", "/graphql", nil, line)
	elseif first_letter == 63 then -- a question mark: only where a link leads
		return wrk.format("HEAD", line:sub(2))
	end
	return wrk.format("GET", line)
end

function response(got, headers, body)
	answered = answered + 1
	ended = now()
	if got == status and (expected == "" or body:find(expected, 1, true) and not body:find('"errors":[{', 1, true)) then
		right = right + 1
		bytes = bytes + #body
	else
		wrong = wrong + 1
		sample = got .. " " .. body:sub(1, 400)
	end
	finish(false)
end

function done(summary, latency, requests)
	local total = {sent = 0, right = 0, wrong = 0, bytes = 0}
	local from, to, next_number, sample = math.huge, 0, 0, ""
	for _, thread in ipairs(all) do
		for name in pairs(total) do total[name] = total[name] + thread:get(name) end
		if thread:get("sent") > 0 then from = math.min(from, thread:get("began")) end
		to = math.max(to, thread:get("ended"))
		next_number = math.max(next_number, thread:get("number"))
		if thread:get("sample") ~= "" then sample = thread:get("sample") end
	end
	local e = summary.errors
	io.write(string.format("outcome %d %d %d %d %d %.6f %d %d %d\n%s", total.sent, total.right, total.wrong, total.bytes,
		next_number, math.max(to - from, 1e-6), latency:percentile(50), latency:percentile(99),
		e.connect + e.read + e.write + e.timeout, sample))
end
