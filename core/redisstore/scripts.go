package redisstore

import (
	"context"
	"encoding/hex"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
)

// The scripts read only the beginning of a value, which has the same length for each
// state: {"token":"<32 hex digits>","state":"in_progress". They never read the body
// of a response.

// script is a Lua script with its text.
type script struct {
	*redis.Script
	text string
}

func newScript(text string) script { return script{redis.NewScript(text), text} }

// run sends a script's digest, and its text after a server has lost the script (case
// 15).
func (s *Store) run(ctx context.Context, script script, keys []string, arguments ...any) *redis.Cmd {
	reply := s.evaluate(ctx, "evalsha", script.Hash(), keys, arguments)
	if err := reply.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") { // HasErrorPrefix allocates
		return s.evaluate(ctx, "eval", script.text, keys, arguments)
	}
	return reply
}

func (s *Store) evaluate(ctx context.Context, command, script string, keys []string, arguments []any) *redis.Cmd {
	const keysAt = 3
	words := append(make([]any, 0, keysAt+len(keys)+len(arguments)), command, script, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	reply := redis.NewCmd(ctx, append(words, arguments...)...)
	reply.SetFirstKeyPos(keysAt)
	if err := s.process(ctx, reply); err != nil {
		reply = redis.NewCmd(ctx) // process may still write to the other
		reply.SetErr(err)
	}
	return reply
}

// process sends a command, and waits for its reply. After an error the command must not be
// read, because an AutoPipeliner may still write to it.
func (s *Store) process(ctx context.Context, command redis.Cmder) error {
	if s.deferred != nil {
		return s.deferred.Submit(ctx, command).WaitContext(ctx)
	}
	return s.client.Process(ctx, command)
}

// Results of settleScript.
const (
	settledByOther = iota // another claim or response has the key
	settled               // the value is written
	settledBefore         // the caller's own token has finished the key earlier, or has another claim
)

// settleScript replaces a claim by ARGV[2], to be kept for ARGV[3] milliseconds. With
// an empty ARGV[2] it deletes the key.
//
// ARGV[1] is the beginning of the claim as far as its attempt, because a late Acquire
// may have taken over the key for the holder's own token. The key must be the holder's
// and unfinished, or be gone: a missing key was not claimed by another caller in the
// meantime.
//
// If there is a KEYS[2], ARGV[2] is a result's short value (see encodeRemembered), and
// ARGV[4] its response, to be kept under KEYS[2] for ARGV[5] milliseconds.
//
// If ARGV[2] is a claim too, the call is a renewal, and keeps the stored steps if they
// are longer: a renewal may be late. A released key is renewed by its last holder.
//
// The last argument is set when the store waits for replicas. A value that the holder
// has finished earlier is then written again, unchanged, because WAIT counts only
// writes.
//
// Nearly always the first comparison decides, so the rest may be slow. The comparison
// is of a claim in version 1, which has neither steps nor a Remember, and is never a
// tombstone. The claim's beginning is of an attempt below 10. Its bounds are texts: Redis
// formats each number, and the two numbers took an eighth of the script's time.
var settleScript = newScript(`
local head = redis.call('GETRANGE', KEYS[1], '0', '83')
local open = head == ARGV[1] or head == ''
local value, claimed = ARGV[2], false
if not open then
	head = redis.call('GETRANGE', KEYS[1], 0, 255)
	local left = redis.call('PTTL', KEYS[1])
	local remember, attempt = string.match(head, '"remember_ms":(%d+)'), '"attempt":%d+,'
	local finished = KEYS[2] and string.sub(head, 1, 32) == string.sub(value, 1, 32)
	if finished then
		remember = ARGV[3] - ARGV[5]
	elseif string.sub(head, 1, 43) ~= string.sub(ARGV[1], 1, 43) or string.match(head, attempt) ~= string.match(ARGV[1], attempt) then
		return 0
	end
	if remember and left >= 0 and left <= tonumber(remember) then
		return 0
	end
	claimed = not finished and (string.sub(head, 44, 65) == ',"state":"in_progress"' or string.sub(head, 44, 62) == ',"state":"released"')
	open = claimed
end
if claimed and string.sub(value, 44, 65) == ',"state":"in_progress"' then
	local stored = redis.call('GET', KEYS[1])
	local steps = (string.find(stored, '\n', 1, true) or #stored) + 1
	local line, size = string.match(value, '^([^\n]*,"size":)(%d+)}\n')
	local more = #stored - steps + 1
	value = more > tonumber(size)
		and string.sub(line, 1, 70) .. '2' .. string.sub(line, 72) .. more .. '}\n' .. string.sub(stored, steps)
		or value
end
if open and value == '' then
	redis.call('DEL', KEYS[1])
elseif open then
	redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
	if KEYS[2] then
		redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[5])
	end
elseif ARGV[KEYS[2] and 6 or 4] then
	redis.call('APPEND', KEYS[1], '')
end
return open and 1 or 2
`)

// replaceScript replaces the value ARGV[1] by ARGV[2], to be kept for ARGV[3]
// milliseconds, if the key has at most ARGV[4] milliseconds left, and more than
// ARGV[5] if that is set: a tombstone cannot be claimed. With an empty ARGV[2] it
// deletes the key. Otherwise it returns the current value and its time to live, or
// false.
var replaceScript = newScript(`
local left = redis.call('PTTL', KEYS[1])
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1]) == ARGV[1] and left <= tonumber(ARGV[4])
	and (not ARGV[5] or left > tonumber(ARGV[5])) then
	if ARGV[2] == '' then
		redis.call('DEL', KEYS[1])
	else
		redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
	end
	return 1
end
local value = redis.call('GET', KEYS[1])
return value and {value, left}
`)

// lookScript returns a value, its time to live, and its response or nil. It returns
// false for a key that does not exist. KEYS[2] is the response's key.
var lookScript = newScript(`
local value = redis.call('GET', KEYS[1])
if not value then
	return false
end
local remembered = string.sub(value, 1, 8) == 'oncekey\2'
return {value, redis.call('PTTL', KEYS[1]), remembered and redis.call('GET', KEYS[2])}
`)

// beginningScript returns the first ARGV[1] bytes of a value, its time to live, and
// the first bytes of its response or nil. It returns false for a key without a value.
// KEYS[2] is the response's key.
var beginningScript = newScript(`
local head = redis.call('GETRANGE', KEYS[1], 0, ARGV[1] - 1)
if head == '' then
	return false
end
local remembered = string.sub(head, 1, 8) == 'oncekey\2'
return {head, redis.call('PTTL', KEYS[1]), remembered and redis.call('GETRANGE', KEYS[2], 0, ARGV[1] - 1)}
`)

// decideScript replaces the claim ARGV[1] by ARGV[2], which lives ARGV[5] milliseconds
// less, if the key has at most ARGV[3] milliseconds left, and more than ARGV[4]: the
// claim is abandoned, and not yet a tombstone. If there is a KEYS[2], ARGV[6] is the
// response, to be kept under KEYS[2] for ARGV[4] milliseconds less than the key. It
// returns whether it has replaced the claim.
var decideScript = newScript(`
local left = redis.call('PTTL', KEYS[1])
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1]) ~= ARGV[1] or left > tonumber(ARGV[3]) or left <= tonumber(ARGV[4]) then
	return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', left - ARGV[5])
if KEYS[2] then
	redis.call('SET', KEYS[2], ARGV[6], 'PX', left - ARGV[4])
end
return 1
`)

// The state of a value comes after its token.
const (
	tokenStart      = `{"token":"`
	stateStart      = 43
	stateReleased   = `,"state":"released","v":1`
	stateInProgress = `,"state":"in_progress"`
	stateEnd        = stateStart + len(stateReleased)
)

// isForgotten reports whether only an attempt number is left of a record, by the beginning
// of its value.
func isForgotten(value string) bool {
	return len(value) >= stateEnd && value[stateStart:] == stateReleased
}

// appendClaimPrefix appends the beginning of every claim of the token.
func appendClaimPrefix(b []byte, token storage.Token) []byte {
	b = hex.AppendEncode(append(b, tokenStart...), token[:])
	return append(append(b, '"'), stateInProgress...)
}

// attemptPrefix is the beginning of one attempt's claim.
func attemptPrefix(l storage.Lease) []byte {
	const usual = 96
	b := appendClaimPrefix(make([]byte, 0, usual), l.Token)
	b = strconv.AppendInt(append(b, `,"v":`...), version, 10)
	b = strconv.AppendUint(append(b, `,"attempt":`...), l.Attempt, 10)
	return append(b, ',')
}
