package pgstore

import (
	"context"
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
func (s *Store) claimMany(ctx context.Context, batch []*call[storage.Claim, claimed]) (wrote bool, err error) {
	key := func(c storage.Claim) string { return c.Key }
	keys, rows, err := ask(ctx, s, batch, key, s.statements.claimMany, s.claimArguments, scanEntry)
	for _, row := range rows {
		calls := keys.calls(row.key)
		if row.state == "" { // the key was new: a record in the table has a state
			wrote = true
			calls[0].decide(claimed{lease: storage.Lease{Claim: calls[0].request, Attempt: 1}})
			continue
		}
		found, err := row.decode()
		if err != nil {
			continue // each caller gets the error by its own statement
		}
		for _, c := range calls {
			c.decide(claimed{found: found})
		}
	}
	return wrote, err
}

// claimArguments are the arguments of claimManyStatement, for the first claim of each
// key.
func (s *Store) claimArguments(b byKey[storage.Claim, claimed]) []any {
	n := len(b.keys)
	tokens, fingerprints := make([]string, n), make([]string, n)
	digests, origins := make([]pgtype.Text, n), make([]pgtype.Text, n)
	ttls, keeps, retains := make([]int64, n), make([]int64, n), make([]pgtype.Int8, n)
	for i, calls := range b.groups {
		c := calls[0].request
		tokens[i], fingerprints[i], origins[i] = c.Token.String(), c.Fingerprint, origin(c.Origin)
		if c.Digest != (storage.Digest{}) {
			digests[i] = pgtype.Text{String: storage.Token(c.Digest).String(), Valid: true}
		}
		ttls[i], keeps[i], retains[i] = interval(c.TTL).Microseconds, kept(c.Retain, c.Remember).Microseconds, microseconds(retained(c.Retain, c.Remember))
	}
	return []any{b.keys, tokens, fingerprints, digests, origins, ttls, keeps, retains, s.asynchronousClaims}
}

// completeMany decides the completions whose claims have not changed. All others are sent
// alone.
func (s *Store) completeMany(ctx context.Context, batch []*call[*completion, struct{}]) (wrote bool, err error) {
	key := func(c *completion) string { return c.lease.Key }
	keys, completed, err := ask(ctx, s, batch, key, s.statements.completeMany, completionArguments, pgx.RowTo[string])
	for _, key := range completed {
		keys.calls(key)[0].decide(struct{}{})
	}
	return true, err
}

// completionArguments are the arguments of completeManyStatement, for the first
// completion of each key.
func completionArguments(b byKey[*completion, struct{}]) []any {
	n := len(b.keys)
	tokens, attempts, states := make([]string, n), make([]int64, n), make([]string, n)
	keeps, retains, statuses := make([]int64, n), make([]pgtype.Int8, n), make([]int16, n)
	headers, bodies, sketches := make([]pgtype.Text, n), make([][]byte, n), make([][]byte, n)
	for i, calls := range b.groups {
		c := calls[0].request
		tokens[i], attempts[i] = c.lease.Token.String(), int64(c.lease.Attempt)
		states[i], statuses[i] = c.result.State.String(), int16(c.result.Status)
		keeps[i], retains[i] = c.kept.Microseconds, microseconds(c.retained)
		headers[i], bodies[i], sketches[i] = c.header, c.result.Body, c.result.Sketch
	}
	return []any{b.keys, tokens, attempts, states, keeps, retains, statuses, headers, bodies, sketches}
}

// ask sends the statement of a batch, for the calls whose callers have not left until the
// batch has a connection. It returns no rows and no error if the statement certainly has
// had no effect, because the server has refused it or has not received it. Each call is
// then sent alone.
func ask[Q, R, Row any](
	ctx context.Context, s *Store, batch []*call[Q, R], key func(Q) string, statement string,
	arguments func(byKey[Q, R]) []any, scan pgx.RowToFunc[Row],
) (byKey[Q, R], []Row, error) {
	var keys byKey[Q, R]
	connection, err := s.connect(ctx)
	if err != nil {
		return keys, nil, nil //nolint:nilerr // each call gets the error by its own statement
	}
	rows, err := use(ctx, s, connection, func(ctx context.Context, db querier) ([]Row, error) {
		keys = newByKey(batch, key)
		if len(keys.keys) == 0 {
			return nil, nil
		}
		rows, err := db.Query(ctx, statement, arguments(keys)...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, scan)
	})
	if codeOf(err) != "" || pgconn.SafeToRetry(err) {
		return keys, nil, nil
	}
	return keys, rows, err
}

// byKey are the calls of a batch, grouped by key, in the order of keys.
type byKey[Q, R any] struct {
	keys   []string
	groups [][]*call[Q, R]
}

func newByKey[Q, R any](batch []*call[Q, R], key func(Q) string) (b byKey[Q, R]) {
	rest := make([]*call[Q, R], 0, len(batch))
	for _, c := range batch {
		if c.ctx.Err() == nil {
			rest = append(rest, c)
		}
	}
	slices.SortFunc(rest, func(a, b *call[Q, R]) int { return strings.Compare(key(a.request), key(b.request)) })
	for len(rest) > 0 {
		first, same := key(rest[0].request), 1
		for same < len(rest) && key(rest[same].request) == first {
			same++
		}
		b.keys, b.groups = append(b.keys, first), append(b.groups, rest[:same])
		rest = rest[same:]
	}
	return b
}

// calls returns the calls of a key of the batch.
func (b byKey[Q, R]) calls(key string) []*call[Q, R] {
	i, _ := slices.BinarySearch(b.keys, key)
	return b.groups[i]
}

// microseconds returns null for null.
func microseconds(d pgtype.Interval) pgtype.Int8 {
	return pgtype.Int8{Int64: d.Microseconds, Valid: d.Valid}
}
