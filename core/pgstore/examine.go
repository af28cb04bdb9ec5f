package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Examiner = (*Store)(nil)

// Examine implements [storage.Examiner]. It reads the server's settings and catalogs,
// tries each statement that the store needs in a transaction that it rolls back, and
// takes a key of its own through a whole request. A check that this role may not make is
// [storage.Skipped], and names the right.
func (s *Store) Examine(ctx context.Context) []storage.Finding {
	e := &examiner{store: s, db: s.unprepared(s.pool)}
	return examination.Run(ctx, e.connect, []examination.Step{
		examination.One("version", e.version),
		examination.One("schema version", e.schemaVersion),
		examination.One("table", e.table),
		examination.One("rights", e.rights),
		examination.One("primary", e.primary),
		examination.One("durability", e.durability),
		examination.One("synchronous standbys", e.standbys),
		examination.One("pooler", e.pooler),
		examination.One("time limits", e.limits),
		examination.One("autovacuum", e.autovacuum),
		examination.One("sweeping", e.sweeping),
		examination.One("fillfactor", e.fillfactor),
		examination.One("index size", e.indexes),
		examination.One("clock", func(ctx context.Context, check string) storage.Finding {
			return examination.Clocks(ctx, check, func(ctx context.Context) (at time.Time, err error) {
				err = e.db.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at)
				return at, err
			})
		}),
		examination.One("round trip", func(ctx context.Context, check string) storage.Finding {
			return examination.RoundTrips(ctx, check, e.trip)
		}),
		examination.One("canary", func(ctx context.Context, check string) storage.Finding {
			return examination.Canary(ctx, check, s)
		}),
	})
}

// oldestVersion is the server_version_num of PostgreSQL 13.
const oldestVersion = 130_000

// examiner has the sources of several checks.
type examiner struct {
	store    *Store
	db       querier
	settings map[string]string // of the session, as SHOW shows them
}

const settingsStatement = `
SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'server_version_num', 'synchronous_commit',
	'synchronous_standby_names', 'fsync', 'full_page_writes', 'autovacuum', 'statement_timeout', 'lock_timeout',
	'idle_in_transaction_session_timeout', 'transaction_timeout')`

func (e *examiner) connect(ctx context.Context) error {
	rows, err := e.db.Query(ctx, settingsStatement)
	if err != nil {
		return err
	}
	e.settings = map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		e.settings[name] = value
		return nil
	})
	return err
}

func (e *examiner) trip(ctx context.Context) error {
	var one int
	return e.db.QueryRow(ctx, `SELECT 1`).Scan(&one)
}

func (e *examiner) version(_ context.Context, check string) storage.Finding {
	var number int
	seen := "PostgreSQL " + e.settings["server_version"]
	if _, err := fmt.Sscan(e.settings["server_version_num"], &number); err != nil || number < oldestVersion {
		return examination.Mend(check, seen, "upgrade: the store needs PostgreSQL 13 or newer")
	}
	return examination.Good(check, seen)
}

// schemaVersion reads the table migrations, which a service needs no right to.
func (e *examiner) schemaVersion(ctx context.Context, check string) storage.Finding {
	var version int
	want := len(Migrations())
	err := e.db.QueryRow(ctx, inSchema(e.store.schema, versionStatement)).Scan(&version)
	seen := fmt.Sprintf("version %d, this program has %d", version, want)
	switch {
	case codeOf(err) == insufficientPrivilege:
		return examination.Skipped(check, err.Error(), inSchema(e.store.schema, "GRANT SELECT ON {schema}.migrations to this role"))
	case err != nil:
		return examination.Mend(check, e.store.explained(err).Error(), "run pgstore.Migrate")
	case version < want:
		return examination.Mend(check, seen, "run pgstore.Migrate before the programs of this version")
	default:
		return examination.Good(check, seen)
	}
}

// errTried rolls a trial back.
var errTried = errors.New("tried")

// rights reads the rights of the role, and tries the statements. Policies and triggers
// can refuse a statement that the role has the right to.
func (e *examiner) rights(ctx context.Context, check string) storage.Finding {
	found, err := e.store.rightsOf(ctx, e.db)
	if err == nil {
		err = e.store.check(found)
	}
	if err == nil {
		err = pgx.BeginFunc(ctx, e.store.pool, func(tx pgx.Tx) error { return e.try(ctx, e.store.unprepared(tx)) })
	}
	if err != nil && !errors.Is(err, errTried) {
		return examination.Mend(check, e.store.explained(err).Error(), "run the GRANT that is named, see docs/postgres.md")
	}
	return examination.Good(check, fmt.Sprintf("role %q may run each statement", found.role))
}

// try runs the statements of a request, of operators and of the sweeper.
func (e *examiner) try(ctx context.Context, db querier) error {
	s, l := e.store, storage.Lease{Claim: storage.Claim{
		Key: "oncekey examination " + storage.NewToken().String(), Token: storage.NewToken(), Fingerprint: "oncekey examination",
		TTL: time.Minute, Retain: time.Minute,
	}, Attempt: 1}
	res := storage.Result{State: storage.Completed, Status: minStatus, Retain: time.Minute}
	for _, statement := range []struct {
		text      string
		arguments []any
	}{
		{s.statements.extend, extension(l, l.TTL)},
		{s.statements.complete, newCompletion(l, res).arguments()},
		{s.statements.releaseFirst, []any{l.Key, uuid(l.Token), int64(l.Attempt)}},
		{s.statements.happened, []any{l.Key, int64(l.Attempt), uuid(l.Token), int16(minStatus)}},
		{s.statements.forget, []any{l.Key}},
		{s.statements.sweep, []any{1}},
	} {
		if _, err := db.Exec(ctx, statement.text, statement.arguments...); err != nil {
			return err
		}
	}
	return errTried
}

func (e *examiner) primary(ctx context.Context, check string) storage.Finding {
	standby, found := query[bool](ctx, e, check, `SELECT pg_is_in_recovery()`)
	switch {
	case found != nil:
		return *found
	case standby:
		return examination.Mend(check, "the server is a standby", "connect to the primary: a standby refuses claims")
	default:
		return examination.Good(check, "the server is a primary")
	}
}

func (e *examiner) durability(_ context.Context, check string) storage.Finding {
	commit, sync, pages := e.settings["synchronous_commit"], e.settings["fsync"], e.settings["full_page_writes"]
	seen := fmt.Sprintf("synchronous_commit %s, fsync %s, full_page_writes %s", commit, sync, pages)
	switch {
	case sync != "on" || pages != "on":
		return examination.Mend(check, seen, "set fsync and full_page_writes on: a crash of the machine may lose or damage all records")
	case commit == "off":
		return examination.Mend(check, seen, "set synchronous_commit on for this role: a crash loses acknowledged responses, and their requests run twice")
	case e.store.asynchronousClaims:
		return examination.Look(check, seen+", AsynchronousClaims", "a crash may lose the last claims, and their requests run twice")
	default:
		return examination.Good(check, seen)
	}
}

func (e *examiner) standbys(ctx context.Context, check string) storage.Finding {
	names, commit := e.settings["synchronous_standby_names"], e.settings["synchronous_commit"]
	connected, found := query[int](ctx, e, check, `SELECT count(*) FROM pg_stat_replication`)
	if found != nil {
		return *found
	}
	seen := fmt.Sprintf("synchronous_standby_names %q, synchronous_commit %s, %d standbys are connected", names, commit, connected)
	switch {
	case names == "" && connected > 0:
		return examination.Look(check, seen, "set synchronous_standby_names: a failover may lose the last claims and responses")
	case names != "" && commit == "local":
		return examination.Look(check, seen, "set synchronous_commit on: commits do not wait for the standbys")
	case names != "" && connected == 0:
		return examination.Mend(check, seen, "start the standbys: each commit waits for them")
	default:
		return examination.Good(check, seen)
	}
}

func (e *examiner) pooler(ctx context.Context, check string) storage.Finding {
	if err := e.store.Check(ctx); err != nil {
		return examination.Skipped(check, err.Error(), "mend the rights first")
	}
	seen := "query mode " + e.store.mode.String()
	switch {
	case !e.store.readiness.pooled.Load():
		return examination.Good(check, "no pooler, "+seen)
	case e.store.mode == pgx.QueryExecModeExec, e.store.mode == pgx.QueryExecModeSimpleProtocol:
		return examination.Good(check, "a pooler, "+seen)
	default:
		return examination.Look(check, "a pooler, "+seen,
			"set default_query_exec_mode=exec: in transaction mode the next statement may run in another session")
	}
}

// limits looks for time limits of the role below the time that a statement may need.
func (e *examiner) limits(_ context.Context, check string) storage.Finding {
	var seen, short []string
	for _, name := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_timeout"} {
		value, known := e.settings[name]
		if !known { // in this version of PostgreSQL
			continue
		}
		seen = append(seen, name+" "+value+"ms")
		var limit int64
		if _, err := fmt.Sscan(value, &limit); err == nil && limit > 0 && limit < patience.Milliseconds() {
			short = append(short, name)
		}
	}
	if len(short) > 0 {
		return examination.Look(check, strings.Join(seen, ", "), fmt.Sprintf(
			"raise %s above %s, or to 0: the store bounds its statements itself, and a server's limit also ends a handler's transaction",
			strings.Join(short, ", "), patience))
	}
	return examination.Good(check, strings.Join(seen, ", "))
}
