// Package pgstore keeps records in PostgreSQL 13 or newer, through pgx v5.
//
//	pool, err := pgxpool.New(ctx, "postgres://localhost/shop")
//	err = pgstore.Migrate(ctx, pool) // or run Migrations with a tool of your own
//	store := pgstore.New(pool)
//	engine, err := core.New(store, core.ScopeBy(userID))
//	go store.RunSweeper(ctx, 10*time.Minute)
//
// The table and its rows are those of sqlstore.PostgreSQL, so a service can move from one
// package to the other, or use both at once.
//
// A first-time request is two statements of one round trip each. A replay is one, and so is
// the response that a key is in progress. It writes no data: no row lock, no transaction
// number, no WAL. A take-over reads first, and a settlement whose claim is missing sends more
// statements. A connection prepares a statement on first use, unless the pool's query mode
// says otherwise or there is a pooler. A process checks its role's rights once, before its
// first claim, see [Store.Check].
//
// Only the server's clock decides when a record expires.
//
// # Batches
//
// Concurrent calls of a process share statements, and so commits and round trips. While two
// claims are on their way (one, if the pool has fewer than eight connections), the claims
// that come meanwhile wait. They are then sent as one statement. Results do the same.
//
//   - There is no timer. A call that need not wait lets the calls that are ready to run in
//     this moment join it, and is sent at once, alone if there are none.
//   - After a batch that has written, only one statement is on its way at a time, so that a
//     commit serves more calls. A second one is sent once half as many calls wait as the
//     batch has. A call waits 50 ms at most for a statement before it.
//   - A batch of claims whose keys this process has seen is a SELECT, because most of them
//     are finished. A replay in a batch with new keys waits for their commit.
//   - A batch decides keys that are new or finished. A key in progress, released, abandoned
//     or expired is claimed alone after it. So is a result whose claim has changed.
//   - A batch has at most 128 calls, and at most 1 MiB of bodies. A body over 64 KiB is sent
//     alone. So are renewals, releases and the results of transactional handlers.
//   - A row that another transaction has locked holds a batch up for 20 ms. Then each call is
//     sent alone, and only the call for that row waits. The keys of a batch are sorted, so
//     batches of two processes cannot deadlock. A call that the server refuses fails alone.
//   - A batch belongs to no request: its context has no values, and a tracer's spans have no
//     parent. See [WithoutBatches].
//
// # Room on the pages
//
// A claim needs room on its page for the result that follows: the result then touches no
// index. The migration lets claims fill pages to 25 per cent (fillfactor), because a batch
// fills a page with claims before their results come. Measured with responses of 300 bytes
// and PostgreSQL 15, in bytes a record, by go test -run - -bench Footprint -benchtime 1x:
//
//	requests at once   table, 25   table, 50   WAL, 25   WAL, 50
//	               1       2,732       1,640     1,193     1,193
//	              16       1,194         939     1,135     1,205
//	              64       1,059       1,035     1,123     1,287
//	             256       1,030       1,123     1,120     1,315
//
// If your service seldom has two requests at once, and disk matters more, run ALTER TABLE
// oncekey_records SET (fillfactor = 50) after the migration. [Migrate] leaves the setting as
// it is.
//
// A tombstone (policy.Remember) keeps its room: eight of them fill a page to 25 per cent, and
// then it takes no new claim. Tombstones take about 1,400 bytes each, and with a fillfactor
// of 50 about 800.
//
// # Handlers in a transaction
//
// If the handler writes to the same database, the store can commit its writes and its response
// together, see [Tx]. After a crash both exist, or neither, so a retry is safe.
//
// # Sweeping
//
// An expired record counts as missing, and a new claim takes its row. The others stay until a
// [Store.Sweep] after the next full hour removes them. A record that is remembered counts as
// a tombstone first, and a Sweep removes its response. Run [Store.RunSweeper] in each
// instance, or Sweep from a scheduler. Sweepers do not disturb each other.
//
// # Settings that matter
//
// synchronous_commit: leave it on, and acknowledged writes survive a crash of the
// server. [AsynchronousClaims] turns it off for the claims of new keys. With "local",
// or without synchronous_standby_names, a failover may lose the last claims and responses.
// After a lost claim, a retry runs the handler a second time.
//
// The pool must lead to the primary. A replica serves its replays, and refuses each claim.
// The store is correct under each isolation level that is the default. Above read committed
// contention costs retries.
//
// A call returns when its context ends. Its statement goes on for up to three seconds, so that
// its connection is kept. A claim whose call ran into its deadline may still reach the server
// later. No handler runs then, and the key is in progress until that lease ends.
//
// Grants, poolers and distant servers: docs/sql.md.
package pgstore

import (
	"fmt"
	"log/slog"
	"regexp"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/internal/lane"
	"github.com/oncekey/oncekey/core/internal/records"
	"github.com/oncekey/oncekey/core/internal/sqlrows"
	"github.com/oncekey/oncekey/core/storage"
)

// DefaultTable is the name of the table, unless [Table] sets another.
const DefaultTable = "oncekey_records"

// Store is a [storage.Store] in PostgreSQL, and a [storage.Transactor], a
// [storage.Inspector], a [storage.Checker], a [storage.Limiter] and a [storage.Examiner]
// too. It is safe for concurrent use. Make one with [New].
//
// The pages of a List are in the order of their keys. List skips an unreadable record, and
// logs a warning with the record's key. Forget also deletes the attempt number.
type Store struct {
	pool   *pgxpool.Pool
	table  string
	logger *slog.Logger
	swept  *atomic.Int64 // or nil
	// asynchronousClaims: see AsynchronousClaims.
	asynchronousClaims bool
	// mode is the query mode of the pool.
	mode  pgx.QueryExecMode
	proof sqlrows.Proof
	// pooled: there is a pooler before the server, and the next statement may run in
	// another session.
	pooled atomic.Bool
	// readOnly: the server took no writes when the rights were read.
	readOnly atomic.Bool

	// records has the rules, and their statements for one record.
	records    *sqlrows.Records
	statements [sqlrows.Names]sqlrows.Statement
	// completeBegun is Complete in a handler's transaction. It changes no row in another
	// transaction than the one that the store has begun.
	completeBegun string

	// withoutBatches: see WithoutBatches.
	withoutBatches                                   bool
	claims                                           lane.Lane[storage.Claim, claimed]
	completions                                      lane.Lane[completion, struct{}]
	claimStatement, readStatement, completeStatement sqlrows.Many

	inspector
	*scopes
}

// The methods of [storage.Inspector] and of [storage.Limiter].
type (
	inspector = storage.Inspector
	scopes    = sqlrows.Scopes
)

var (
	_ storage.Transactor = (*Store)(nil)
	_ storage.Inspector  = (*Store)(nil)
	_ storage.Checker    = (*Store)(nil)
	_ storage.Limiter    = (*Store)(nil)
	_ storage.Examiner   = (*Store)(nil)
)

// Option is a setting of [New], [Migrate] and [Migrations].
type Option func(*Store)

var tablePattern = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,40}$`)

// Table sets the name of the table, so that several applications can share a database.
// The default is [DefaultTable]. A schema may precede the name, with a dot. Table panics
// when a name has other characters than letters, digits and underscores, or is longer than
// 41 characters, or than 63 for a schema. Upper case does not count.
func Table(name string) Option {
	if !tablePattern.MatchString(name) {
		panic(fmt.Sprintf("pgstore: Table(%q): want at most 41 letters, digits and underscores, possibly after a schema of at most 63 and a dot", name))
	}
	return func(s *Store) { s.table = name }
}

// Logger sets the logger of [Store.RunSweeper] and of skipped records. The default,
// also for nil, is slog.Default().
func Logger(logger *slog.Logger) Option { return func(s *Store) { s.logger = logger } }

// CountSwept adds the number of records that sweeps of this store remove to removed, for a
// metric such as that of idemotel.WithSwept. The default, also for nil, counts none.
func CountSwept(removed *atomic.Int64) Option { return func(s *Store) { s.swept = removed } }

// AsynchronousClaims lets the claim of a new key return before the server has the
// claim on its disk, or on its synchronous standbys. The statement commits with
// synchronous_commit off, so a first-time request waits for the disk once instead of
// twice. The option is off by default. All other writes still wait: responses,
// releases, renewals, and claims of keys that have a row already, such as take-overs.
//
// A crash of the server, or a failover, may then lose the claims of the last 600 ms (three
// times wal_writer_delay), but none before another commit that was waited for. An
// acknowledged response is never lost, nor is its claim. While a claim is lost:
//
//   - The running handler continues. Its next renewal (every third of the policy's
//     LockTTL) or its response restores the record.
//   - A retry that comes before that runs the handler a second time, beside the first, as
//     attempt 1 again: the number does not fence off the first handler, which loses its
//     lease at its next renewal, and its response is not stored.
//   - If the service's process ends in the same crash, a retry runs as a first attempt,
//     and the policy's OnAbandoned does not apply.
//
// So leave the option off if handlers have effects outside of this database that must
// not happen twice, unless they pass on a key by which the other side recognises a
// repetition, see core.DeriveKey. On [Transactional] routes a lost claim is harmless for the
// writes in the transaction: the crash has rolled them back, and the commit waits for the
// disk, with the claim before it.
func AsynchronousClaims() Option { return func(s *Store) { s.asynchronousClaims = true } }

// WithoutBatches sends each call in a statement of its own, with the values of the
// call's context. By default concurrent calls share statements, whose context has no
// values. The option is for tracers that need these values, and costs throughput. A pool
// with a PrepareConn or BeforeAcquire never has batches: by these values it may choose
// the schema, and so the table.
func WithoutBatches() Option { return func(s *Store) { s.withoutBatches = true } }

// New returns a store that uses the pool. It neither dials nor migrates: the first
// call reports an unreachable server or a missing table. The caller keeps the pool,
// and closes it after the last request and after the sweeper has returned.
func New(pool *pgxpool.Pool, options ...Option) *Store {
	if pool == nil {
		panic("pgstore: New(nil): want a pool")
	}
	return configured(pool, options)
}

func configured(pool *pgxpool.Pool, options []Option) *Store {
	s := &Store{pool: pool, table: DefaultTable}
	statements := 0
	if pool != nil {
		config := pool.Config()
		s.mode, statements = config.ConnConfig.DefaultQueryExecMode, statementsAtOnce(config.MaxConns)
		s.withoutBatches = config.PrepareConn != nil || config.BeforeAcquire != nil //nolint:staticcheck // deprecated, and in use
	}
	s.claims = lane.Lane[storage.Claim, claimed]{Client: postgresClient, Send: s.claimMany, Statements: statements}
	s.completions = lane.Lane[completion, struct{}]{Client: postgresClient, Send: s.completeMany, Statements: statements}
	records.Configure("pgstore", s, options)
	s.proof = sqlrows.Proof{Client: postgresClient, Prove: s.prove}
	form := sqlrows.PostgreSQL()
	form.FirstReads, form.AsynchronousClaims = true, s.asynchronousClaims
	s.statements = form.Statements(s.table)
	s.completeBegun = s.statements[sqlrows.Complete].Text + ` AND ` + isBegun
	s.claimStatement, s.readStatement, s.completeStatement = form.ClaimMany(s.table), form.ReadMany(s.table), form.CompleteMany(s.table)
	s.records = s.newRecords(&form)
	s.inspector, s.scopes = s.records, sqlrows.NewScopes(s.records)
	return s
}

// statementsAtOnce is how many statements of claims, and how many of results, are in
// flight before calls wait. A second one uses the time that the first one is at the
// server, and more of them would make batches smaller: see package lane. A small pool keeps
// half of its connections for other statements.
func statementsAtOnce(connections int32) int {
	const most, share = 2, 4
	return int(max(1, min(most, connections/share)))
}
