package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
)

// checkKey has the form of a storage key, so it matches the same ACL patterns. A storage key
// is a hash, so no request has this one.
var checkKey = strings.Repeat("f", 64)

var _ storage.Checker = (*Store)(nil)

// Check implements [storage.Checker] in one round trip. It tries each command that
// Acquire, Complete, Release and Extend need, and for an engine with a limit of scopes
// those of Admit and Keep, on keys that never exist. On a cluster it asks one master. It
// does not check the replicas of [WaitReplicas]; a claim does.
func (s *Store) Check(ctx context.Context) error {
	_, err := bounded(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.check(ctx) })
	return s.failure("check", checkKey, err)
}

// question is one caller's question whether the server permits all commands.
type question struct {
	done chan struct{}
	err  error // set when done is closed
}

// permit returns an error when this process may claim keys but not settle them. It
// asks the server until the server has permitted all commands once. It ignores other
// errors, because they pass: the claim reports them. The first callers of a busy
// process come together: one of them asks, and the others wait.
func (s *Store) permit(ctx context.Context) error {
	for !s.permitted.Load() {
		mine := &question{done: make(chan struct{})}
		if s.question.CompareAndSwap(nil, mine) {
			_, mine.err = bounded(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.check(ctx) })
			s.question.Store(nil)
			close(mine.done)
			return unlessItPasses(mine.err)
		}
		others := s.question.Load()
		if others == nil {
			continue
		}
		select {
		case <-others.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := others.err; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			return unlessItPasses(err)
		}
	}
	return nil
}

func unlessItPasses(err error) error {
	if isServerError(err) && !errors.Is(err, storage.ErrStoreForbidden) {
		return nil
	}
	return err
}

// check tries the commands and the scripts, and so loads the scripts into the server.
// It also tries each command of the scripts by itself, because a script's error does
// not name the refused command.
func (s *Store) check(ctx context.Context) error {
	key := s.prefix + checkKey
	keys := []string{key}
	if response, possible := s.responseKey(checkKey); possible {
		keys = append(keys, response)
	}
	settling := []any{attemptPrefix(&storage.Lease{Claim: storage.Claim{Token: storage.NewToken()}, Attempt: 1}), 1}
	pipeline := s.client.Pipeline()
	if s.replicas.wanted > 0 {
		pipeline.Append(ctx, key, "") // creates the key, for a millisecond
	}
	pipeline.Get(ctx, key)
	pipeline.PTTL(ctx, key)
	pipeline.GetRange(ctx, key, 0, 0)
	pipeline.Del(ctx, key)
	pipeline.Do(ctx, "set", key, "", "px", 1, "xx", "get") // XX creates no key
	settleScript.Eval(ctx, pipeline, keys, settling...)
	replaceScript.Eval(ctx, pipeline, []string{key}, "none", "", 1, 1)
	lookScript.Eval(ctx, pipeline, keys) // so that the first 409 finds it loaded
	settleScript.EvalSha(ctx, pipeline, []string{key}, settling...)
	if s.counts.Load() {
		if err := tryCounts(ctx, pipeline, s.prefix); err != nil {
			return err
		}
	}
	var other error
	for _, command := range exec(ctx, pipeline) {
		switch err := command.Err(); {
		case err == nil, isNil(err), redis.HasErrorPrefix(err, "NOSCRIPT"), redis.IsTryAgainError(err): // its slot moves
		case isForbidden(err):
			return fmt.Errorf("%w: the server refuses %s: %w", storage.ErrStoreForbidden, strings.ToUpper(command.Name()), err)
		case other == nil:
			other = err
		}
	}
	s.permitted.Store(other == nil)
	return other
}

// tryCounts tries the commands of counts, which change no key that does not exist, and loads the
// scripts.
func tryCounts(ctx context.Context, pipeline redis.Pipeliner, prefix string) error {
	places, possible := keyApart(prefix, checkKey, placesSuffix)
	window, _ := keyApart(prefix, checkKey, windowSuffix)
	if !possible {
		return errScopeBraces
	}
	pipeline.Time(ctx)
	for _, command := range [][]any{
		{"zadd", places, "xx", 0, ""},
		{"zrem", places, ""},
		{"zscore", places, ""},
		{"zcard", places},
		{"zremrangebyscore", places, "-inf", 0},
		{"pexpire", places, 1},
		{"get", window},
	} {
		pipeline.Do(ctx, command...)
	}
	keys := []string{places, window}
	admitScript.Eval(ctx, pipeline, keys, "", 0, 0, 0, 0)
	keepScript.Eval(ctx, pipeline, keys, "", 0)
	return nil
}

// isForbidden reports whether the server refuses a command to this user, or to all
// users because the command was renamed. A script's error has no prefix of its own: the
// last two texts are Redis 7.0's, and that of Redis 7.2 and Valkey.
func isForbidden(err error) bool {
	if !isServerError(err) {
		return false
	}
	text := err.Error()
	return redis.HasErrorPrefix(err, "NOPERM") || strings.Contains(text, "ERR unknown command") ||
		strings.Contains(text, "The user executing the script can't") || strings.Contains(text, "ERR ACL failure in script")
}

func isServerError(err error) bool {
	_, is := errors.AsType[redis.Error](err)
	return is && !errors.Is(err, redis.Nil) // see isNil: one that is wrapped is no reply of the server either
}
