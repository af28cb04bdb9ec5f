package pgstore

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// rows is a store on the table of package sqlstore, by the statements and rules of package
// sqlrows. Concurrent calls share statements.
type rows struct {
	*sqlrows.Records
	store      *Store
	statements [sqlrows.Names]sqlrows.Statement
	// completeBegun is Complete in a handler's transaction. It changes no row in another
	// transaction than the one that the store has begun.
	completeBegun string

	claims      lane[storage.Claim, claimed]
	completions lane[*settlement, struct{}]
	// first and settled are the statements of a batch of claims, and of one of results.
	first, settled sqlrows.Many
}

func newRows(s *Store, table string) *rows {
	form := sqlrows.PostgreSQL()
	form.FirstReads, form.AsynchronousClaims = true, s.asynchronousClaims
	r := &rows{store: s, statements: form.Statements(table), first: form.ClaimMany(table), settled: form.CompleteMany(table)}
	r.Records = &sqlrows.Records{Package: "pgstore", Pool: runner{r, nil}, Client: client{s}, Form: &form, Table: table, Seen: sqlrows.NewSeen()}
	r.completeBegun = r.statements[sqlrows.Complete].Text + ` AND ` + isBegun
	r.claims.send, r.completions.send = r.claimMany, r.settleMany
	r.claims.statements, r.completions.statements = s.claims.statements, s.completions.statements
	return r
}

// client is the store as package sqlrows sees it.
type client struct{ *Store }

// Ready implements [sqlrows.Client].
func (client) Ready(context.Context) error { return nil }

// Again implements [sqlrows.Client].
func (client) Again(err error) bool { return notApplied(err) }

// Barred implements [sqlrows.Client].
func (client) Barred(err error) bool { return notApplied(err) || codeOf(err) == insufficientPrivilege }

// Duplicate implements [sqlrows.Client].
func (client) Duplicate(error) bool { return false }

// Explained implements [sqlrows.Client].
func (c client) Explained(err error) error { return c.explained(err) }

// Log implements [sqlrows.Client].
func (c client) Log() *slog.Logger { return c.log() }

// runner runs the statements of a record on a connection of the pool, or on db.
type runner struct {
	rows *rows
	db   querier
}

// on runs call where the runner's statements go. call must not use the caller's memory.
func on[T any](ctx context.Context, r runner, call func(ctx context.Context, db querier) (T, error)) (T, error) {
	if r.db != nil {
		return call(ctx, r.rows.store.often(r.db))
	}
	return onConnection(ctx, r.rows.store, call)
}

// Exec implements [sqlrows.Executor].
func (r runner) Exec(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments) (bool, error) {
	statement := &r.rows.statements[of]
	text, values := statement.Text, statement.Values(a.Clone())
	first := r.db != nil && of == sqlrows.Complete
	if first {
		text = r.rows.completeBegun
	}
	changed, err := on(ctx, r, func(ctx context.Context, db querier) (bool, error) {
		tag, err := db.Exec(ctx, text, values...)
		return tag.RowsAffected() > 0, err
	})
	if first && err == nil && !changed {
		err = begun(ctx, r.rows.store, r.db) // before the record is written in another way
	}
	return changed, unlessRefused(err)
}

// Find implements [sqlrows.Executor].
func (r runner) Find(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments) (*sqlrows.Row, error) {
	statement := &r.rows.statements[of]
	values := statement.Values(a.Clone())
	row, err := on(ctx, r, func(ctx context.Context, db querier) (row *sqlrows.Row, err error) {
		found, err := db.Query(ctx, statement.Text, values...)
		if err != nil {
			return nil, err
		}
		defer found.Close()
		if found.Next() {
			row, err = rowFrom(found, of)
		}
		found.Close()
		if err == nil {
			err = found.Err()
		}
		return row, err
	})
	if of == sqlrows.FirstOrRead {
		err = unlessRefused(err)
	}
	if err != nil || row == nil || row.IsNew() {
		return row, err
	}
	if err := row.Parse(); err != nil {
		return nil, err
	}
	return row, nil
}

// Each implements [sqlrows.Pool].
func (r runner) Each(ctx context.Context, of sqlrows.Name, a *sqlrows.Arguments, take func(row *sqlrows.Row, unread error) bool) error {
	statement := &r.rows.statements[of]
	found, err := r.rows.store.unprepared(r.rows.store.pool).Query(ctx, statement.Text, statement.Values(a)...)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(found, func(pgx.CollectableRow) (*sqlrows.Row, error) { return rowFrom(found, of) })
	for _, row := range all {
		var unread error
		if of == sqlrows.List {
			unread = row.Parse()
		}
		if !take(row, unread) {
			break
		}
	}
	return err
}

// Change implements [sqlrows.Pool].
func (r runner) Change(ctx context.Context, text string, values []any) (int64, error) {
	tag, err := r.rows.store.unprepared(r.rows.store.pool).Exec(ctx, text, values...)
	return tag.RowsAffected(), err
}

// rowFrom reads the columns of a statement.
func rowFrom(from pgx.Rows, of sqlrows.Name) (*sqlrows.Row, error) {
	var key, text string
	var content, sketch []byte
	raw := newRawRow(from)
	if of == sqlrows.List || of == sqlrows.Overdue {
		key = raw.text()
	}
	if of != sqlrows.Overdue {
		text = raw.text()
	}
	if of == sqlrows.Read || of == sqlrows.FirstOrRead {
		content, sketch = raw.bytes(), raw.bytes()
	}
	return sqlrows.Text(key, text, content, sketch), raw.end()
}

// Transacts reports that handlers can have transactions.
func (r *rows) Transacts() bool { return true }

// BeginTransaction implements [storage.Transactor].
func (r *rows) BeginTransaction(ctx context.Context, l storage.Lease) (context.Context, storage.Transaction, error) {
	return begin(ctx, r.store, l, r.finish)
}

func (r *rows) finish(ctx context.Context, t *transaction, l storage.Lease, res storage.Result) (bool, error) {
	completed, err := r.Finish(ctx, runner{r, t.tx}, &l, &res)
	if errors.Is(err, sqlrows.ErrFinished) {
		return false, nil
	}
	return completed, err
}

// Acquire implements [storage.Store].
func (r *rows) Acquire(ctx context.Context, request storage.Request) (lease storage.Lease, found *storage.Record, err error) {
	c := request.Claim()
	alone := func() (claimed, error) {
		lease, found, err := r.Claim(ctx, c)
		return claimed{lease, found}, err
	}
	err = r.Retry(ctx, func() error {
		won, err := r.claims.do(ctx, c, 0, alone)
		lease, found = won.lease, won.found
		return err
	})
	if err != nil {
		return storage.Lease{}, nil, r.Failure("acquire", c.Key, err)
	}
	return lease, found, nil
}

// settlement is a lease whose result is to be stored.
type settlement struct {
	lease     storage.Lease
	arguments *sqlrows.Arguments
}

// Complete implements [storage.Store].
func (r *rows) Complete(ctx context.Context, l storage.Lease, res storage.Result) error {
	if len(res.Body) > sqlrows.LongestBody {
		return r.Records.Complete(ctx, l, res)
	}
	alone := func() (struct{}, error) { return struct{}{}, r.Records.Complete(ctx, l, res) }
	_, err := r.completions.do(ctx, &settlement{l, sqlrows.Finishing(&l, &res)}, len(res.Body), alone)
	return err
}

// claimMany decides the claims of keys that are new or finished. A finished record is the
// result of all claims of its key, and a new key is won by one of them. All other claims
// are sent alone: of keys in progress, released and expired, and of races that are lost.
func (r *rows) claimMany(ctx context.Context, batch []*call[storage.Claim, claimed]) (wrote bool, err error) {
	key := func(c storage.Claim) string { return c.Key }
	keys, found, err := sendMany(ctx, r.store, batch, key, &r.first, sqlrows.Claiming, func(from pgx.Rows) (*sqlrows.Row, error) {
		raw := newRawRow(from)
		key, text, content, sketch := raw.text(), raw.text(), raw.bytes(), raw.bytes()
		return sqlrows.Text(key, text, content, sketch), raw.end()
	})
	for _, row := range found {
		calls := keys.calls(row.Key())
		if row.IsNew() {
			wrote = true
			calls[0].decide(claimed{lease: storage.Lease{Claim: calls[0].request, Attempt: 1}})
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
			c.decide(claimed{found: record})
		}
	}
	return wrote, err
}

// settleMany decides the completions whose claims have not changed. All others are sent
// alone.
func (r *rows) settleMany(ctx context.Context, batch []*call[*settlement, struct{}]) (wrote bool, err error) {
	key := func(s *settlement) string { return s.lease.Key }
	arguments := func(s *settlement) *sqlrows.Arguments { return s.arguments }
	keys, completed, err := sendMany(ctx, r.store, batch, key, &r.settled, arguments, func(from pgx.Rows) (string, error) {
		raw := newRawRow(from)
		return raw.text(), raw.end()
	})
	for _, key := range completed {
		keys.calls(key)[0].decide(struct{}{})
	}
	return true, err
}

// sendMany sends the statement of a batch, for the calls whose callers have not left until the
// batch has a connection. It returns no rows and no error if the statement certainly has
// had no effect, because the server has refused it or has not received it. Each call is
// then sent alone.
func sendMany[Q, R, Row any](
	ctx context.Context, s *Store, batch []*call[Q, R], key func(Q) string, of *sqlrows.Many,
	arguments func(Q) *sqlrows.Arguments, scan func(pgx.Rows) (Row, error),
) (byKey[Q, R], []Row, error) {
	var keys byKey[Q, R]
	connection, err := s.connect(ctx)
	if err != nil {
		return keys, nil, nil //nolint:nilerr // each call gets the error by its own statement
	}
	found, err := use(ctx, s, connection, func(patient context.Context, _ querier) ([]Row, error) {
		keys = newByKey(batch, key)
		if len(keys.keys) == 0 {
			return nil, nil
		}
		var all []*sqlrows.Arguments
		for _, calls := range keys.groups {
			all = append(all, arguments(calls[0].request))
		}
		return guarded(patient, s, connection.Conn(), of.Text, of.Values(all), scan)
	})
	if codeOf(err) != "" || pgconn.SafeToRetry(err) {
		return keys, nil, nil
	}
	return keys, found, err
}

// guarded runs a statement of several records after sqlrows.ManyGuard: both in one round
// trip, which is a transaction. Behind a pooler a pool that prepares has three.
func guarded[Row any](
	ctx context.Context, s *Store, connection *pgx.Conn, text string, values []any, scan func(pgx.Rows) (Row, error),
) (all []Row, err error) {
	collect := func(found pgx.Rows, err error) error {
		if err == nil {
			all, err = pgx.CollectRows(found, func(pgx.CollectableRow) (Row, error) { return scan(found) })
		}
		return err
	}
	if s.readiness.pooled.Load() && s.mode != pgx.QueryExecModeExec && s.mode != pgx.QueryExecModeSimpleProtocol {
		err := pgx.BeginTxFunc(ctx, connection, pgx.TxOptions{BeginQuery: "BEGIN; " + sqlrows.ManyGuard}, func(tx pgx.Tx) error {
			return collect(s.unprepared(tx).Query(ctx, text, values...))
		})
		return all, err
	}
	batch := &pgx.Batch{}
	batch.Queue(sqlrows.ManyGuard)
	batch.Queue(text, values...)
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
