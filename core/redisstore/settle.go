package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/storage"
)

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
