package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncekey/oncekey/core/storage"
)

// A finished record with a Remember has two keys. The key itself has a short value, which has
// no more than a tombstone, and is one from the end of Retain on. The response is a value of
// its own, which expires with Retain.
const responseSuffix = ":response"

// errScopeBraces refuses to count the keys of a scope.
var errScopeBraces = errors.New("the prefix has a brace, so the two keys of a scope cannot share a slot: want a Prefix without braces")

// errBraces refuses a Remember.
var errBraces = errors.New("the prefix has a brace, so a remembered record's two keys cannot share a slot: want a Prefix without braces")

// result returns the keys and the arguments of settleScript for a result.
func (s *Store) result(l storage.Lease, res storage.Result) (keys []string, arguments []any, err error) {
	keys, arguments = []string{s.prefix + l.Key}, []any{encodeResult(l, res, time.Now()), milliseconds(res.Retain)}
	if res.Remember > 0 {
		response, possible := s.responseKey(l.Key)
		if !possible {
			return nil, nil, errBraces
		}
		keys = append(keys, response)
		arguments = append([]any{encodeRemembered(l, res), lifetime(res.Retain, res.Remember)}, arguments...)
	}
	if s.replicas.wanted > 0 {
		arguments = append(arguments, s.replicas.wanted)
	}
	return keys, arguments, nil
}

// join completes a short value by the response. Without the response, which may have
// been evicted, the record is not replayable. A response of another attempt is left
// over: an operator has removed the short value alone.
func (s *stored) join(response []byte) error {
	if len(response) == 0 {
		s.lose()
		return nil
	}
	found, err := decode(response)
	if err == nil {
		s.adopt(found)
	}
	return err
}

// joinBeginning joins the beginning of a response. It returns false when the
// beginning is too short.
func (s *stored) joinBeginning(response []byte) (enough bool, err error) {
	if len(response) == 0 {
		s.lose()
		return true, nil
	}
	found, enough, err := decodeBeginning(response)
	if enough && err == nil {
		s.adopt(found)
	}
	return enough, err
}

// adopt takes the response over, if it is of the same attempt.
func (s *stored) adopt(response stored) {
	r := &response.record
	if response.apart || response.token != s.token || r.Attempt != s.record.Attempt || r.State != s.record.State {
		s.lose()
		return
	}
	s.record, s.retain, s.age = response.record, response.retain, response.age
}

func (s *stored) lose() { s.lost, s.record.State = true, storage.Unreplayable }

// bury turns the record into its tombstone.
func (s *stored) bury() {
	r := &s.record
	s.record = storage.Record{State: storage.Expired, Fingerprint: r.Fingerprint, Digest: r.Digest, Attempt: r.Attempt, Status: r.Status}
	s.lost = false
}

// lifetime is the time to live of a record, in milliseconds.
func lifetime(retain, remember time.Duration) int64 {
	return milliseconds(retain) + milliseconds(remember)
}

// responseKey returns the name of a response with a key of its own.
func (s *Store) responseKey(key string) (name string, possible bool) {
	return keyApart(s.prefix, key, responseSuffix)
}

// keyApart returns the name of another key with the slot of a storage key. Like all names it
// begins with the prefix, so that a user's rights cover it. It returns false when braces in the
// prefix make that impossible.
func keyApart(prefix, key, suffix string) (name string, possible bool) {
	full := prefix + key
	switch {
	case hasHashTag(full):
		return full + suffix, true
	case strings.ContainsAny(full, "{}"):
		return full, false
	default:
		return prefix + "{" + full + "}" + suffix, true
	}
}

// isResponse reports whether a name that begins with the prefix is a keyApart, and so no record's.
func (s *Store) isResponse(name string) bool {
	for _, suffix := range []string{responseSuffix, placesSuffix, windowSuffix} {
		if full, is := strings.CutSuffix(name, suffix); is {
			tag, tagged := strings.CutPrefix(full, s.prefix+"{"+s.prefix)
			return hasHashTag(s.prefix) || tagged && strings.HasSuffix(tag, "}")
		}
	}
	return false
}

// onScope returns the call of a script over the keys of a scope. It returns no reply of another
// length than two numbers.
func onScope(s *Store, operation string, of script) scopeCall {
	return func(ctx context.Context, scope string, arguments ...any) ([]int64, error) {
		places, possible := keyApart(s.prefix, scope, placesSuffix)
		window, _ := keyApart(s.prefix, scope, windowSuffix)
		if !possible {
			return nil, s.failure(operation, scope, errScopeBraces)
		}
		reply, err := boundedCommands(ctx, s, func(ctx context.Context) ([]int64, error) {
			return s.run(ctx, of, []string{places, window}, arguments...).Int64Slice()
		})
		if err == nil && len(reply) != 2 {
			err = fmt.Errorf("the script returned %d numbers, want 2", len(reply))
		}
		return reply, s.failure(operation, scope, err)
	}
}

// hasHashTag reports whether a part of the name alone decides its slot.
func hasHashTag(name string) bool {
	_, tag, found := strings.Cut(name, "{")
	return found && strings.IndexByte(tag, '}') > 0
}
