// Package pgstore keeps records in PostgreSQL 13 or newer, through pgx v5.
//
//	pool, err := pgxpool.New(ctx, "postgres://localhost/shop")
//	err = pgstore.Migrate(ctx, pool) // or run Migrations with a tool of your own
//	store := pgstore.New(pool)
//	guard, err := core.New(store, core.ScopeBy(userID))
//	go store.RunSweeper(ctx, 10*time.Minute)
//
// Each step is one statement and one round trip: a first-time request takes two,
// to claim its key and to settle it, a replay takes one, and so does being told
// that a key is in progress. A replay writes nothing: no row lock, no transaction
// number, no WAL. More statements are sent in two cases: when another caller was
// faster by a hair, and when a settlement does not find its claim, to put it back or
// to find out why not. The first time that a connection meets a statement it
// prepares it, which is one more round trip, unless the pool's query mode says
// otherwise. Behind a pooler nothing is prepared. Before its first claim a process
// asks once whether its role has every right, see [Store.Check].
//
// The server's clock alone decides what has expired.
//
// # Handlers in a transaction
//
// Where the handler writes to the same database, its writes and its answer can
// be committed together, see [Tx]: whatever dies in between, both are there or
// neither is, so that a retry is safe even when nobody knows how far the first
// attempt came.
//
// # Sweeping
//
// An expired record is treated as if it were not there, and a new claim takes
// its row. The others stay in the table until a [Store.Sweep] after the next full
// hour removes them. Run [Store.RunSweeper] in each instance, or Sweep from a
// scheduler: several at once do not disturb each other.
//
// # Settings that matter
//
// synchronous_commit: what the server has acknowledged survives its crash unless
// somebody has turned this off; [AsynchronousClaims] does so for the claims of new
// keys. With "local" or without synchronous standbys (synchronous_standby_names) a
// fail-over may lose the last claims and answers: a lost claim is free again, and a
// retry runs the handler a second time.
//
// The pool must lead to the primary. A replica replays what it has, and refuses
// each claim with an error: nothing runs.
//
// default_transaction_isolation: the store is correct under each level. Under
// repeatable read and serializable contention costs retries.
//
// A call returns when its context ends. Its statement goes on for up to three seconds,
// so that its connection is kept. A claim whose call ran into its deadline may still
// reach the server later. No handler runs then, and the key is in progress until that
// lease has run out.
//
// Grants, poolers and servers far away: docs/postgres.md.
package pgstore

import (
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekey/oncekey/core/storage"
)

// DefaultSchema has the tables unless [Schema] says otherwise.
const DefaultSchema = "oncekey"

// Store is a [storage.Store] in PostgreSQL, and a [storage.Transactor], a
// [storage.Inspector] and a [storage.Checker] too. It is safe for concurrent use. Make one with [New].
type Store struct {
	pool       *pgxpool.Pool
	schema     string
	logger     *slog.Logger
	statements statements
	// asynchronousClaims: see AsynchronousClaims.
	asynchronousClaims bool
	// mode is how the pool sends statements.
	mode      pgx.QueryExecMode
	readiness readiness
}

var (
	_ storage.Store      = (*Store)(nil)
	_ storage.Transactor = (*Store)(nil)
	_ storage.Inspector  = (*Store)(nil)
	_ storage.Checker    = (*Store)(nil)
)

// Option is a setting of [New], [Migrate] and [Migrations].
type Option func(*Store)

// Schema sets the database schema in which the tables are, so that several
// applications can share a database. The default is [DefaultSchema]. The name is
// quoted: it is taken as it stands, upper case included. It panics when name is
// empty.
func Schema(name string) Option {
	if name == "" {
		panic("pgstore: Schema(\"\"): want a name")
	}
	return func(s *Store) { s.schema = name }
}

// Logger sets where [Store.RunSweeper] reports. The default, and what nil means,
// is slog.Default().
func Logger(logger *slog.Logger) Option { return func(s *Store) { s.logger = logger } }

// AsynchronousClaims lets the claim of a new key return before the server has it
// on its disk, or on its synchronous standbys: it commits with synchronous_commit
// off, in the same statement, and a first-time request waits for the disk once
// instead of twice. It is off by default. All the rest waits as always: answers,
// releases, renewals, and claims of keys that have a row already, such as those
// that take over.
//
// A crash of the server, or a fail-over, may then forget claims of the last moment:
// three times wal_writer_delay, which is 600 ms unless it was set, and less when
// anybody's commit was waited for in the meantime, because that takes all before it
// along. The end of the service's own process forgets nothing. What is
// acknowledged as completed is never forgotten, nor is its claim.
//
// While a claim is forgotten, its key is free:
//
//   - The handler that is running goes on, and its next renewal (every third of the
//     policy's LockTTL) or its answer puts the record back, if nobody else has
//     claimed the key until then.
//   - A retry that comes before that runs the handler a second time, beside the
//     first. It gets attempt number 1 once more, so the number does not fence the
//     first one off. The first one loses its lease: its context is cancelled at the
//     next renewal, and its answer is not stored.
//   - When the service's process ends in the same crash nobody remembers that the
//     handler ran: a retry runs as a first attempt, and the policy's OnAbandoned is
//     not asked, whatever it says.
//
// So leave it off where handlers act outside of this database and must not do so
// twice, or hand on a key that makes the other side recognise it, see
// core.DeriveKey. On routes that are [Transactional] a forgotten claim is harmless
// as to what the handler writes in its transaction: the crash has rolled that back,
// and the transaction's own commit is waited for, with the claim before it. What
// such a handler does elsewhere is subject to the above.
func AsynchronousClaims() Option { return func(s *Store) { s.asynchronousClaims = true } }

// New returns a store that uses the pool. It neither dials nor migrates: a server
// that is away, or a table that is missing, shows in the first call. The pool
// stays the caller's, who closes it when the last request is done and the
// sweeper has returned.
func New(pool *pgxpool.Pool, options ...Option) *Store {
	if pool == nil {
		panic("pgstore: New(nil): want a pool")
	}
	return configured(pool, options)
}

func configured(pool *pgxpool.Pool, options []Option) *Store {
	s := &Store{pool: pool, schema: DefaultSchema}
	if pool != nil {
		s.mode = pool.Config().ConnConfig.DefaultQueryExecMode
	}
	for _, option := range options {
		option(s)
	}
	s.statements = newStatements(s.schema)
	return s
}

// inSchema replaces the place-holder for the schema's name.
func inSchema(schema, statement string) string {
	return strings.ReplaceAll(statement, "{schema}", pgx.Identifier{schema}.Sanitize())
}

func (s *Store) log() *slog.Logger {
	if s.logger == nil {
		return slog.Default()
	}
	return s.logger
}
