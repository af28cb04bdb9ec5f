package redisstore

import (
	"context"
	"crypto/fips140"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// script is a Lua script with its text. It reads only the head of a value (see layout), and never the body of a response.
type script struct {
	*redis.Script
	text string
}

func newScript(text string) (s script) {
	fips140.WithoutEnforcement(func() { s = script{redis.NewScript(text), text} }) // Redis names scripts by SHA-1
	return s
}

// run sends a script's digest, and its text after a server has lost the script.
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

// exec sends a pipeline, and returns its commands, each with its error. go-redis leaves all of them
// without one when the server refuses the connection itself, for example its password.
func exec(ctx context.Context, pipeline redis.Pipeliner) []redis.Cmder {
	commands, err := pipeline.Exec(ctx)
	if err != nil && !slices.ContainsFunc(commands, func(c redis.Cmder) bool { return c.Err() != nil }) {
		for _, command := range commands {
			command.SetErr(fmt.Errorf("no connection: %w", err))
		}
	}
	return commands
}

// Results of settleScript.
const (
	settledByOther = iota // another claim or response has the key
	settled               // the value is written
	settledBefore         // the attempt has finished the key earlier
)

// settleScript replaces a claim by ARGV[1], to be kept for ARGV[2] milliseconds. An
// ARGV[1] of 32 bytes, which has a mark, a token and an attempt only, deletes the key.
//
// The claim must have the token and the attempt of ARGV[1], because a late Acquire may have
// taken over the key for the holder's own token. The key must be the holder's and
// unfinished, or be gone: a missing key was not claimed by another caller in the meantime.
//
// If there is a KEYS[2], ARGV[1] is a result's short value (see encodeRemembered), and
// ARGV[3] its response, to be kept under KEYS[2] for ARGV[4] milliseconds.
//
// If ARGV[1] is a claim too, the call is a renewal, and keeps the stored steps if they
// are longer: a renewal may be late. A released key is renewed by its last holder.
//
// The last argument is set when the store waits for replicas. A value that the holder has finished
// earlier is then written again, unchanged, because WAIT counts only writes.
//
// Nearly always the first comparison decides, so the rest may be slow. The comparison is with a claim that
// has neither a Remember nor steps, and is never a tombstone. Its bounds are texts: Redis formats each
// number, and the two numbers took an eighth of the script's time.
var settleScript = newScript(`
local value = ARGV[1]
local prefix = string.sub(value, 1, 32)
local head = redis.call('GETRANGE', KEYS[1], '0', '34')
local open = head == '' or head == prefix .. '\1\0\0'
local number, remember, sizeAt
if not open then
	head = redis.call('GETRANGE', KEYS[1], 0, 63)
	if #head < 35 or string.sub(head, 1, 32) ~= prefix then
		return 0
	end
	number = function(of, at)
		local sum, unit, byte = 0, 1
		repeat
			byte = string.byte(of, at) or 0
			sum, unit, at = sum + byte % 128 * unit, unit * 128, at + 1
		until byte < 128
		return sum, at
	end
	remember, sizeAt = number(head, 34)
	local left = redis.call('PTTL', KEYS[1])
	if remember > 0 and left >= 0 and left <= remember then
		return 0
	end
	local state = string.byte(head, 33)
	open = state == 1 or state == 6
end
if open and number and string.byte(value, 33) == 1 then
	local size, fieldsAt = number(head, sizeAt)
	local _, newSizeAt = number(value, 34)
	local newSize, newFieldsAt = number(value, newSizeAt)
	value = size > newSize
		and string.sub(value, 1, newSizeAt - 1) .. string.sub(head, sizeAt, fieldsAt - 1)
			.. string.sub(value, newFieldsAt, #value - newSize) .. redis.call('GETRANGE', KEYS[1], -size, -1)
		or value
end
if open and #value == 32 then
	redis.call('DEL', KEYS[1])
elseif open then
	redis.call('SET', KEYS[1], value, 'PX', ARGV[2])
	if KEYS[2] then
		redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
	end
elseif ARGV[KEYS[2] and 5 or 3] then
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

// isApart is a Lua function that reports whether a value, or its beginning, is of a record whose
// response has a key of its own: it is finished, and has a Remember.
const isApart = `
local function isApart(value)
	local state = string.byte(value, 33)
	return state and string.sub(value, 1, 8) == 'oncekey\1' and state >= 2 and state <= 4 and string.byte(value, 34) ~= 0
end
`

// lookScript returns a value, its time to live, and its response or nil. It returns
// false for a key that does not exist. KEYS[2] is the response's key, if it is wanted.
var lookScript = newScript(isApart + `
local value = redis.call('GET', KEYS[1])
if not value then
	return false
end
return {value, redis.call('PTTL', KEYS[1]), isApart(value) and KEYS[2] and redis.call('GET', KEYS[2])}
`)

// forgetScript deletes a value and its response, and returns the value's first ARGV[1] bytes,
// or false where there was none. KEYS[2] is the response's key.
var forgetScript = newScript(`
local head = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[1] - 1)
local deleted = redis.call('DEL', KEYS[1])
redis.call('DEL', KEYS[2]) -- perhaps the same key
if deleted == 0 then
	return false
end
return type(head) == 'string' and head or '' -- an error for a list
`)

// beginningScript returns the first ARGV[1] bytes of a value, its time to live, and
// the first bytes of its response or nil. It returns false for a key without a value.
// KEYS[2] is the response's key.
var beginningScript = newScript(isApart + `
local head = redis.call('GETRANGE', KEYS[1], 0, ARGV[1] - 1)
if head == '' then
	return false
end
return {head, redis.call('PTTL', KEYS[1]), isApart(head) and redis.call('GETRANGE', KEYS[2], 0, ARGV[1] - 1)}
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

// The scripts of scopes.
var admitScript, keepScript = newScript(admitText), newScript(keepText)
