package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// The two keys of a scope whose new keys are limited, in one slot: the places are a sorted set of
// tokens, each with the end of its place, and the window is the number of its keys. Both expire.
const (
	placesSuffix = ":places"
	windowSuffix = ":window"
)

// scopes counts the keys of scopes by scripts.
type scopes struct {
	// admit and keep run admitText and keepText over the keys of a scope.
	admit, keep scopeCall
	// counts: an engine limits scopes, so a check tries the commands of counts.
	counts atomic.Bool
}

type scopeCall func(ctx context.Context, scope string, arguments ...any) ([]int64, error)

// Admit implements [storage.Limiter], in one round trip. A failover may lose counts that the
// replica had not received: a few keys more are admitted then. WaitReplicas waits for no counts.
func (s *scopes) Admit(ctx context.Context, p storage.Place, ttl time.Duration, limit storage.ScopeLimit) (storage.Admission, error) {
	reply, err := s.admit(ctx, p.Scope, p.Token[:], milliseconds(ttl), limit.InFlight, limit.NewKeys, milliseconds(limit.Window))
	if err != nil {
		return storage.Admission{}, err
	}
	return storage.Admission{Reached: storage.Bound(reply[0]), Wait: time.Duration(reply[1]) * time.Millisecond}, nil
}

// Keep implements [storage.Limiter], in one round trip.
func (s *scopes) Keep(ctx context.Context, p storage.Place, ttl time.Duration) error {
	_, err := s.keep(ctx, p.Scope, p.Token[:], milliseconds(ttl))
	return err
}

// Limits is the method that [storage.Limits] asks. From then on a check tries the commands that
// counts need too: a user without a limit of scopes needs no right to them.
func (s *scopes) Limits() bool {
	s.counts.Store(true)
	return true
}

// holdPlace is a Lua function that lets a place last until a time.
const holdPlace = `
local time = redis.call('TIME')
local now, ttl = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[2])
local function hold(existing)
	redis.call('ZADD', KEYS[1], existing and 'XX' or 'NX', now + ttl, ARGV[1])
	redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ttl))
end
`

// admitText returns the bound that is reached or 0, and the rest of the window. ARGV has the
// token, the time in milliseconds for which the place lasts, both bounds and the window.
const admitText = holdPlace + `
local places, keys, full = tonumber(ARGV[3]), tonumber(ARGV[4]), false
if places > 0 then
	if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
		hold(true)
		return {0, 0}
	end
	redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
	full = redis.call('ZCARD', KEYS[1]) >= places
end
if full then
	return {1, 0}
end
if keys > 0 then
	local left = redis.call('PTTL', KEYS[2])
	local open = left >= 0 and left <= tonumber(ARGV[5])
	local used = open and tonumber(redis.call('GET', KEYS[2])) or 0
	if used >= keys then
		return {2, math.max(1, left)}
	end
	redis.call('SET', KEYS[2], used + 1, unpack(open and {'KEEPTTL'} or {'PX', ARGV[5]}))
end
if places > 0 then
	hold(false)
end
return {0, 0}
`

// keepText renews a place for a number of milliseconds, or ends it for 0.
const keepText = holdPlace + `
if ttl > 0 then
	hold(true)
else
	redis.call('ZREM', KEYS[1], ARGV[1])
end
return {0, 0}
`
