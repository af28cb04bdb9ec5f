package pgstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncekey/oncekey/core/storage"
)

// largestBody is the longest body of a result in a batch. A longer body would delay the
// other calls, and gains little from a shared commit. The function claim_many has the
// same limit for the bodies that it returns.
const largestBody = 64 << 10

// The statements of a batch, see the functions in the migrations. Tokens and digests are
// texts, because some query modes cannot send an array of uuid.
const (
	claimManyStatement = `
SELECT * FROM {schema}.claim_many($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::boolean)`

	completeManyStatement = `
SELECT * FROM {schema}.complete_many($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[],
	$7::smallint[], $8::text[], $9::bytea[], $10::bytea[])`
)

// claimMany decides the claims of keys that are new or finished. A finished record is the
// result of all claims of its key, and a new key is won by one of them. All other claims
// are sent alone: of keys in progress, released and expired, and of races that are lost.
func (s *Store) claimMany(ctx context.Context, batch []*call[storage.Claim, claimed]) error {
	keys, calls := byKey(batch, func(c storage.Claim) string { return c.Key })
	arguments := claimsOf(keys, calls, s.asynchronousClaims)
	rows, err := onConnection(ctx, s, func(ctx context.Context, db querier) ([]listedRecord, error) {
		rows, err := db.Query(ctx, s.statements.claimMany, arguments...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, scanEntry)
	})
	if err != nil {
		return unlessUndone(err)
	}
	for _, row := range rows {
		same := callsOf(row.key, keys, calls)
		if row.version == 0 && len(same) > 0 { // the key was new
			same[0].decide(claimed{lease: storage.Lease{Claim: same[0].request, Attempt: 1}})
			continue
		}
		found, err := row.decode()
		if err != nil {
			continue // each caller gets the error by its own statement
		}
		for _, c := range same {
			c.decide(claimed{found: found})
		}
	}
	return nil
}

// claimsOf returns the arguments of claimManyStatement, for the first claim of each key.
func claimsOf(keys []string, calls [][]*call[storage.Claim, claimed], asynchronous bool) []any {
	n := len(keys)
	tokens, fingerprints := make([]string, n), make([]string, n)
	digests, origins := make([]pgtype.Text, n), make([]pgtype.Text, n)
	ttls, keeps, retains := make([]int64, n), make([]int64, n), make([]pgtype.Int8, n)
	for i, same := range calls {
		c := same[0].request
		tokens[i], fingerprints[i], origins[i] = c.Token.String(), c.Fingerprint, origin(c.Origin)
		if c.Digest != (storage.Digest{}) {
			digests[i] = pgtype.Text{String: storage.Token(c.Digest).String(), Valid: true}
		}
		ttls[i], keeps[i], retains[i] = interval(c.TTL).Microseconds, kept(c.Retain, c.Remember).Microseconds, microseconds(retained(c.Retain, c.Remember))
	}
	return []any{keys, tokens, fingerprints, digests, origins, ttls, keeps, retains, asynchronous}
}

// completeMany decides the completions whose claims have not changed. All others are sent
// alone.
func (s *Store) completeMany(ctx context.Context, batch []*call[*completion, struct{}]) error {
	keys, calls := byKey(batch, func(c *completion) string { return c.lease.Key })
	arguments := completionsOf(keys, calls)
	completed, err := onConnection(ctx, s, func(ctx context.Context, db querier) ([]string, error) {
		rows, err := db.Query(ctx, s.statements.completeMany, arguments...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	})
	if err != nil {
		return unlessUndone(err)
	}
	for _, key := range completed {
		if same := callsOf(key, keys, calls); len(same) > 0 {
			same[0].decide(struct{}{})
		}
	}
	return nil
}

// completionsOf returns the arguments of completeManyStatement, for the first completion
// of each key.
func completionsOf(keys []string, calls [][]*call[*completion, struct{}]) []any {
	n := len(keys)
	tokens, attempts, states := make([]string, n), make([]int64, n), make([]string, n)
	keeps, retains, statuses := make([]int64, n), make([]pgtype.Int8, n), make([]int16, n)
	headers, bodies, sketches := make([]pgtype.Text, n), make([][]byte, n), make([][]byte, n)
	for i, same := range calls {
		c := same[0].request
		tokens[i], attempts[i] = c.lease.Token.String(), int64(c.lease.Attempt)
		states[i], statuses[i] = c.result.State.String(), int16(c.result.Status)
		keeps[i], retains[i] = c.kept.Microseconds, microseconds(c.retained)
		headers[i], bodies[i], sketches[i] = c.header, c.result.Body, c.result.Sketch
	}
	return []any{keys, tokens, attempts, states, keeps, retains, statuses, headers, bodies, sketches}
}

// byKey returns the keys of a batch in order, and the calls of each key. It sorts the
// batch.
func byKey[Q, R any](batch []*call[Q, R], key func(Q) string) (keys []string, calls [][]*call[Q, R]) {
	slices.SortFunc(batch, func(a, b *call[Q, R]) int { return strings.Compare(key(a.request), key(b.request)) })
	for len(batch) > 0 {
		same := 1
		for same < len(batch) && key(batch[same].request) == key(batch[0].request) {
			same++
		}
		keys, calls = append(keys, key(batch[0].request)), append(calls, batch[:same])
		batch = batch[same:]
	}
	return keys, calls
}

// callsOf returns the calls of a key.
func callsOf[Q, R any](key string, keys []string, calls [][]*call[Q, R]) []*call[Q, R] {
	i, there := slices.BinarySearch(keys, key)
	if !there {
		return nil
	}
	return calls[i]
}

// unlessUndone returns nil for an error of a batch that certainly has had no effect,
// because the server has refused it or has not received it. Each call is then sent alone.
func unlessUndone(err error) error {
	_, unsent := errors.AsType[unsentError](err)
	if unsent || codeOf(err) != "" || pgconn.SafeToRetry(err) {
		return nil
	}
	return err
}

// microseconds returns null for null.
func microseconds(d pgtype.Interval) pgtype.Int8 {
	return pgtype.Int8{Int64: d.Microseconds, Valid: d.Valid}
}
