package redisstore

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
)

// The scripts read no more than the beginning of a value, which has the same
// length for each state: {"token":"<32 hex digits>","state":"in_progress". They
// never see the body of an answer. Run sends a script's digest, and its text
// after a server has lost it (case 15).

// What settleScript returns.
const (
	settledOthers = iota // somebody else has the key
	settled              // the value is written
	settledBefore        // the caller's own token has finished it earlier, or has another claim
)

// settleScript replaces a claim by ARGV[2], to be kept for ARGV[3] milliseconds,
// or deletes it when that is empty. ARGV[1] is how the claim begins, at least as far
// as its attempt: a late Acquire may have taken the key over for the holder's own
// token. Where it must be that very claim, it is all of it. The key must be the holder's and unfinished, or be gone: what
// nobody holds nobody has claimed in the meantime. ARGV[4] is there when replicas are
// asked about: what the holder has finished earlier is then written once more, as it
// is, because WAIT knows of writes alone.
//
// Nearly always one comparison decides: the rest may be slow.
var settleScript = redis.NewScript(`
local head = redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
local open = head == ARGV[1] or head == ''
if not open then
	if string.sub(head, 1, 43) ~= string.sub(ARGV[1], 1, 43) then
		return 0
	end
	local attempt = '"attempt":%d+,'
	if string.match(redis.call('GETRANGE', KEYS[1], 0, 127), attempt) ~= string.match(ARGV[1], attempt) then
		return 0
	end
	open = string.sub(head, 44, 62) == ',"state":"released"'
end
if open and ARGV[2] == '' then
	redis.call('DEL', KEYS[1])
elseif open then
	redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
elseif ARGV[4] then
	redis.call('APPEND', KEYS[1], '')
end
return open and 1 or 2
`)

// replaceScript replaces the value ARGV[1], which has no body, by ARGV[2], to be
// kept for ARGV[3] milliseconds, if the key has at most ARGV[4] milliseconds left.
// Otherwise it returns what is there instead and its time to live, or nothing.
var replaceScript = redis.NewScript(`
local left = redis.call('PTTL', KEYS[1])
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1]) == ARGV[1] and left <= tonumber(ARGV[4]) then
	redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
	return 1
end
local value = redis.call('GET', KEYS[1])
return value and {value, left}
`)

// lookScript returns a value and its time to live, or nothing.
var lookScript = redis.NewScript(`
local value = redis.call('GET', KEYS[1])
return value and {value, redis.call('PTTL', KEYS[1])}
`)

// beginningScript returns the first ARGV[1] bytes of a value and its time to live,
// or nothing for a record in another state than ARGV[2]. List sends it as text:
// a pipeline cannot send it once more to a server that has lost it.
const beginningScript = `
local head = redis.call('GETRANGE', KEYS[1], 0, ARGV[1] - 1)
local state = string.match(head, '^{"token":"%x+","state":"([%l_]+)"')
if head == '' or state and state ~= ARGV[2] then
	return false
end
return {head, redis.call('PTTL', KEYS[1])}
`

// A value's state stands after its token.
const (
	stateStart      = 43
	stateReleased   = `,"state":"released"`
	stateInProgress = `,"state":"in_progress"`
	stateEnd        = stateStart + len(stateReleased)
)

// isReleased tells a released claim by its beginning.
func isReleased(value string) bool {
	return len(value) >= stateEnd && value[stateStart:stateEnd] == stateReleased
}

// claimPrefix is how each claim begins that the token has made.
func claimPrefix(token storage.Token) string {
	return `{"token":"` + token.String() + `"` + stateInProgress
}

// attemptPrefix is how the claim of one attempt begins.
func attemptPrefix(l storage.Lease) string {
	return fmt.Sprintf(`%s,"v":%d,"attempt":%d,`, claimPrefix(l.Token), version, l.Attempt)
}
