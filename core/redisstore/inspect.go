package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Inspector = (*Store)(nil)

// Lookup implements [storage.Inspector]. It takes one round trip to the key's master.
// For a value that is not a record it returns an error like Acquire's.
func (s *Store) Lookup(ctx context.Context, key string) (*storage.Record, error) {
	record, err := bounded(ctx, s, func(ctx context.Context) (*storage.Record, error) { return s.lookUp(ctx, key) })
	return record, s.failure("look up", key, err)
}

// lookUp returns nil for a key without a record.
func (s *Store) lookUp(ctx context.Context, key string) (*storage.Record, error) {
	seen, err := s.lookClosely(ctx, key, new(snapshot))
	if err != nil || seen.forgotten || seen.gone {
		return nil, err
	}
	return &seen.record, nil
}

// Forget implements [storage.Inspector]. It also deletes a value that is not a
// record, and then returns true. It also deletes the attempt number of a key that was
// released without steps, which counts as no record.
func (s *Store) Forget(ctx context.Context, key string, confirmation storage.Confirmation) (bool, error) {
	if confirmation != storage.RerunIsSafe {
		return false, fmt.Errorf("redisstore: %w", records.ErrRerunNotConfirmed)
	}
	there, err := bounded(ctx, s, func(ctx context.Context) (bool, error) {
		response, _ := s.responseKey(key)
		head, err := s.run(ctx, forgetScript, []string{s.prefix + key, response}, plainSize).Text()
		if isNil(err) {
			return false, nil
		}
		return err == nil && !isForgotten(head), err
	})
	return there, s.failure("forget", key, err)
}

// listed returns the record as a list shows it: the status and the origin, but no
// header, body, sketch and steps.
func listed(key string, r *storage.Record) storage.Entry {
	shown := *r
	shown.Header, shown.Body, shown.Sketch, shown.Steps = nil, nil, nil, ""
	return storage.Entry{Key: key, Record: &shown}
}

// Settle implements [storage.Inspector]. It reads the record and replaces it by a
// script, in two round trips. With [WaitReplicas] the record counts as settled when
// the replicas have it: after an [ErrTooFewReplicas], look the record up again.
func (s *Store) Settle(ctx context.Context, key string, attempt uint64, confirmation storage.Confirmation) error {
	happened, err := records.Happened(confirmation)
	if err != nil {
		return fmt.Errorf("redisstore: settle: %w", err)
	}
	// Under another token the lease is lost for its holder. A reply that was lost, and
	// that go-redis waits for again, is recognized by the token.
	token := storage.NewToken()
	for range acquireRounds { // a late Extend may change a record that stays abandoned
		seen, err := bounded(ctx, s, func(ctx context.Context) (*snapshot, error) { return s.lookClosely(ctx, key, new(snapshot)) })
		if err == nil && seen.token == token {
			return nil
		}
		if err == nil && !seen.isAbandonedUnder(attempt) {
			break
		}
		done := false
		if err == nil {
			done, err = s.decide(ctx, key, token, seen, happened)
		}
		if err != nil || done {
			return s.failure("settle", key, err)
		}
	}
	return s.failure("settle", key, storage.ErrNotAbandoned)
}

// isAbandonedUnder reports whether an attempt has left the key abandoned.
func (s *snapshot) isAbandonedUnder(attempt uint64) bool {
	return !s.forgotten && !s.gone && s.record.Abandoned() && s.record.Attempt == attempt
}

// decide replaces the record of an abandoned key, and returns false when the record
// has changed meanwhile.
func (s *Store) decide(ctx context.Context, key string, token storage.Token, seen *snapshot, happened bool) (bool, error) {
	r, now := &seen.record, time.Now()
	l := storage.Lease{
		Claim:   storage.Claim{Key: key, Token: token, Fingerprint: r.Fingerprint, Digest: r.Digest, Origin: r.Origin},
		Attempt: r.Attempt, Age: now.Sub(r.Created),
	}
	keys, remember := []string{s.prefix + key}, milliseconds(seen.remember)
	arguments := []any{seen.value, encodeReleased(l, now), milliseconds(seen.afterLease()), remember, remember}
	if happened {
		res := storage.Result{State: storage.Unreplayable, Status: storage.StatusByHand, Retain: r.Expires.Sub(now), Remember: seen.remember}
		value := encodeResult(l, res, now)
		if remember > 0 {
			response, possible := s.responseKey(key)
			if !possible {
				return false, errBraces
			}
			keys, arguments = append(keys, response), append(arguments, value)
			value = encodeRemembered(l, res)
		}
		arguments[1], arguments[4] = value, 0
	}
	return boundedCommands(ctx, s, func(ctx context.Context) (bool, error) {
		reply, unconfirmed := s.write(ctx, decideScript, keys, arguments...)
		done, err := reply.Bool()
		if err == nil && done {
			err = unconfirmed
		}
		return done, err
	})
}
