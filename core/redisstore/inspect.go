package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

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
	seen, err := s.snapshot(ctx, key)
	if err != nil || seen == nil || seen.forgotten || seen.gone {
		return nil, err
	}
	return &seen.record, nil
}

// snapshot reads the value and its time to live in a transaction. No other command can
// run between the two reads, as in claimOrLook. It returns nil without a value.
func (s *Store) snapshot(ctx context.Context, key string) (*snapshot, error) {
	transaction, name := s.client.TxPipeline(), s.prefix+key
	found, left := transaction.Get(ctx, name), transaction.PTTL(ctx, name)
	responseName, _ := s.responseKey(key)
	apart := transaction.Get(ctx, responseName)
	_, failed := transaction.Exec(ctx)
	value, err := found.Bytes()
	response, noResponse := apart.Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil //nolint:nilnil // there is no record
	case err != nil:
		return nil, err
	case failed != nil && noResponse == nil:
		return nil, failed
	case noResponse != nil && !errors.Is(noResponse, redis.Nil) && mayBeApart(string(value)):
		return nil, noResponse
	}
	return look(value, left.Val(), response)
}

// Forget implements [storage.Inspector]. It also deletes a value that is not a
// record, and then returns true. It also deletes the attempt number of a key that was
// released without steps, which counts as no record.
func (s *Store) Forget(ctx context.Context, key string, confirmation storage.Confirmation) (bool, error) {
	if confirmation != storage.RerunIsSafe {
		return false, fmt.Errorf("redisstore: %w", records.ErrRerunNotConfirmed)
	}
	there, err := bounded(ctx, s, func(ctx context.Context) (bool, error) {
		transaction := s.client.TxPipeline()
		head := transaction.GetRange(ctx, s.prefix+key, 0, plainSize-1)
		deleted := transaction.Del(ctx, s.prefix+key)
		if response, possible := s.responseKey(key); possible {
			transaction.Del(ctx, response)
		}
		_, failed := transaction.Exec(ctx)
		if err := deleted.Err(); err != nil {
			return false, err
		}
		if failed != nil && !redis.HasErrorPrefix(failed, "WRONGTYPE") { // GETRANGE's error for a list
			return false, failed
		}
		return deleted.Val() == 1 && !isForgotten(head.Val()), nil
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
		seen, err := bounded(ctx, s, func(ctx context.Context) (*snapshot, error) { return s.snapshot(ctx, key) })
		if err == nil && seen != nil && seen.token == token {
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

// isAbandonedUnder reports whether an attempt has left the key abandoned. There may be no
// snapshot.
func (s *snapshot) isAbandonedUnder(attempt uint64) bool {
	return s != nil && !s.forgotten && !s.gone && s.record.Abandoned() && s.record.Attempt == attempt
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
