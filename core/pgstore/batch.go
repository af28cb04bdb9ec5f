package pgstore

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekey/oncekey/core/internal/lane"
	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// claimMany decides the claims of keys that are new or finished. A finished record is the
// result of all claims of its key, and a new key is won by one of them. All other claims
// are sent alone: of keys in progress, released and expired, and of races that are lost.
func (s *Store) claimMany(ctx context.Context, batch []*lane.Call[storage.Claim, claimed]) (wrote bool, err error) {
	key := func(c storage.Claim) string { return c.Key }
	seen, statement, arguments := s.records.Seen, &s.claimStatement, sqlrows.Claiming
	if !slices.ContainsFunc(batch, func(c *lane.Call[storage.Claim, claimed]) bool { return !seen.Has(c.Request.Key) }) {
		statement, arguments = &s.readStatement, func(c storage.Claim) *sqlrows.Arguments { return sqlrows.KeyOf(c.Key) }
	}
	keys, found, err := sendMany(ctx, s, batch, key, statement, arguments, true)
	for _, row := range found {
		seen.Add(row.Key())
		calls := keys[row.Key()]
		if row.IsNew() {
			wrote = true
			calls[0].Decide(claimed{lease: storage.Lease{Claim: calls[0].Request, Attempt: 1}})
			continue
		}
		if row.Parse() != nil {
			continue // each caller gets the error by its own statement
		}
		record, err := row.Decode()
		if err != nil {
			continue
		}
		for _, c := range calls {
			c.Decide(claimed{found: record})
		}
	}
	return wrote, err
}

// completeMany decides the completions whose claims have not changed. All others are sent
// alone.
func (s *Store) completeMany(ctx context.Context, batch []*lane.Call[completion, struct{}]) (wrote bool, err error) {
	key := func(c completion) string { return c.key }
	arguments := func(c completion) *sqlrows.Arguments { return c.arguments }
	keys, completed, err := sendMany(ctx, s, batch, key, &s.completeStatement, arguments, false)
	for _, row := range completed {
		keys[row.Key()][0].Decide(struct{}{})
	}
	return true, err
}

// sendMany sends the statement of a batch, for the calls whose callers have not left until then,
// and returns these by their keys. It returns no rows and no error if the statement certainly
// has had no effect, because the server has refused it or has not received it. Each call is
// then sent alone.
func sendMany[Q, R any](
	ctx context.Context, s *Store, batch []*lane.Call[Q, R], key func(Q) string, of *sqlrows.Many,
	arguments func(Q) *sqlrows.Arguments, whole bool,
) (keys map[string][]*lane.Call[Q, R], found []*sqlrows.Row, err error) {
	connection, err := s.connect(ctx)
	if err != nil {
		return keys, nil, nil //nolint:nilerr // each call gets the error by its own statement
	}
	keys = map[string][]*lane.Call[Q, R]{}
	values := func() []any {
		for _, c := range batch {
			if !c.Left() {
				keys[key(c.Request)] = append(keys[key(c.Request)], c)
			}
		}
		var all []*sqlrows.Arguments
		for _, own := range slices.Sorted(maps.Keys(keys)) { // so that two processes cannot deadlock
			all = append(all, arguments(keys[own][0].Request))
		}
		if len(all) == 0 {
			return nil
		}
		return of.Values(all)
	}
	found, err = use(ctx, s, connection, func(patient context.Context, _ querier) ([]*sqlrows.Row, error) {
		return guarded(patient, s, connection.Conn(), of.Text, values, whole)
	})
	if codeOf(err) != "" || pgconn.SafeToRetry(err) {
		return keys, nil, nil
	}
	return keys, found, err
}

// guarded runs a statement of several records after sqlrows.ManyGuard: both in one round
// trip, which is a transaction. Behind a pooler a pool that prepares has three, and a pooler may
// let the first one wait. values are asked for right before the statement, which is not sent
// without any.
func guarded(ctx context.Context, s *Store, connection *pgx.Conn, text string, values func() []any, whole bool) (all []*sqlrows.Row, err error) {
	collect := func(found pgx.Rows, err error) error {
		if err == nil {
			all, err = pgx.CollectRows(found, func(pgx.CollectableRow) (*sqlrows.Row, error) { return rowFrom(found, true, whole, whole) })
		}
		return err
	}
	if s.pooled.Load() && s.mode != pgx.QueryExecModeExec && s.mode != pgx.QueryExecModeSimpleProtocol {
		err := pgx.BeginTxFunc(ctx, connection, pgx.TxOptions{BeginQuery: "BEGIN; " + sqlrows.ManyGuard}, func(tx pgx.Tx) error {
			if values := values(); values != nil {
				return collect(s.unprepared(tx).Query(ctx, text, values...))
			}
			return nil
		})
		return all, err
	}
	sent := values()
	if sent == nil {
		return nil, nil
	}
	batch := &pgx.Batch{}
	batch.Queue(sqlrows.ManyGuard)
	batch.Queue(text, sent...)
	results := connection.SendBatch(ctx, batch)
	_, err = results.Exec()
	if err == nil {
		err = collect(results.Query())
	}
	if closed := results.Close(); err == nil {
		err = closed // the commit's
	}
	return all, err
}
